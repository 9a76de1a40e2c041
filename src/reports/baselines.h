// How well simple models predict data: the figures that a network has to beat. They predict the
// same targets as the network (EvalBatch of the same length and split), so that scores can be
// compared.
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
  Task task = Task::kCausal;         // the task that the data was opened with
  int64_t length = 0;                // length of sequences; 0: the data's default
  Split split = Split::kValid;       // split to evaluate
  int64_t most_tokens = 20'000'000;  // most targets of the train split to count
  int64_t eval_tokens = 500'000;     // most targets to evaluate
  bool quiet = true;                 // no progress on stderr
};

// One simple model, by name:
// "uniform": all targets that occur, among those counted or evaluated, are equally likely; its
// `correct` is what guessing gets right on average. "empirical" (for classes "most frequent"): the
// frequencies of targets. "2-gram" and so on: NgramModel, whose history is tokens of the same
// sequence only, up to the order that the targets suffice for. For masked tokens instead "shown
// token": the frequencies of targets given what is shown in their place. For numbers only "mean of
// training", whose loss is the squared error of scaled numbers.
struct Baseline {
  std::string name;
  Score score;
  std::array<Score, kMaskings> by_masking = {};  // only for masked tokens
};

struct TargetCount {
  int32_t target = 0;
  int64_t count = 0;
};

struct Baselines {
  std::vector<Baseline> baselines;
  std::vector<TargetCount> frequencies;  // frequencies of counted targets, the most frequent first
  int64_t length = 0;
  int64_t counted = 0, evaluated = 0;  // numbers of targets
  bool all_counted = true, all_evaluated = true;
};

// The highest order of n-grams that `targets` suffice for: about one target for each of the n-grams
// that `different` equally frequent tokens make, times 4; from 4 to 8 for small alphabets.
int OrderFor(int64_t vocab, int64_t targets, double different);

// Throws kInvalidData if a split has no targets. A split that is not read as a whole is read up to
// the sequence that reaches the number of targets.
Baselines MeasureBaselines(const Dataset& data, const BaselineOptions& options);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_BASELINES_H_
