// What simple models make of data: the figures that a network has to beat. They answer the very
// questions that it is asked (EvalBatch of the same length and split), so that scores compare.
#ifndef FAVOR_REPORTS_BASELINES_H_
#define FAVOR_REPORTS_BASELINES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "favor/data.h"
#include "favor/model.h"

namespace favor::reports {

struct BaselineOptions {
  Task task = Task::kCausal;         // that the data were opened with
  int64_t length = 0;                // of sequences; 0: the data's default
  Split split = Split::kValid;       // to evaluate
  int64_t most_tokens = 20'000'000;  // targets of the train split that are counted
  int64_t eval_tokens = 500'000;     // targets that are evaluated
  bool quiet = true;                 // no progress on stderr
};

// "uniform": all targets that occur, in what was counted or is evaluated, are equally likely; its
// `correct` is what guessing gets right on average. "empirical" ("most frequent" of classes): the
// frequencies of targets. "2-gram" and so on: NgramModel, with tokens of the same sequence alone as
// context, up to the order that the targets suffice for. Of masked tokens instead "shown token":
// the frequencies of targets behind what stands in their place.
struct Baseline {
  std::string name;
  Score score;
  std::array<Score, kMaskings> by_masking = {};  // of masked tokens
};

struct TargetCount {
  int32_t target = 0;
  int64_t count = 0;
};

struct Baselines {
  std::vector<Baseline> baselines;
  std::vector<TargetCount> frequencies;  // of what was counted, the most frequent first
  int64_t length = 0;
  int64_t counted = 0, evaluated = 0;  // targets
  bool all_counted = true, all_evaluated = true;
};

// The highest order of n-grams that `targets` suffice for: about one target for each of the n-grams
// that `different` equally frequent tokens make, times 4; from 4 to 8 for small alphabets.
int OrderFor(int64_t vocab, int64_t targets, double different);

// Throws kInvalidData if a split asks for nothing. What is not read as a whole ends with the first
// sequence that has reached the number of targets.
Baselines MeasureBaselines(const Dataset& data, const BaselineOptions& options);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_BASELINES_H_
