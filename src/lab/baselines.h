// What simple models make of data: the figures that a network has to beat. They answer the very
// questions that it is asked (EvalBatch of the same length and split), so that scores compare.
#ifndef FAVOR_LAB_BASELINES_H_
#define FAVOR_LAB_BASELINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "favor/data.h"
#include "favor/model.h"

namespace favor::lab {

struct BaselineOptions {
  std::string task = "causal";       // that the data were opened with
  int64_t length = 0;                // of sequences; 0: the data's default
  Split split = Split::kValid;       // to evaluate
  int64_t most_tokens = 20'000'000;  // targets of the train split that are counted, the first ones
  int64_t eval_tokens = 500'000;     // targets that are evaluated, the first ones
  bool quiet = true;                 // no progress on stderr
};

// "uniform": all of the vocabulary is equally likely, special tokens too, as for a network whose
// logits are all 0; its `correct` is what guessing gets right on average. "empirical" ("most
// frequent" of classes): the frequencies of targets. "2-gram", "3-gram", "4-gram": NgramModel, with
// tokens of the same sequence alone as context; not for masked tokens and classes.
struct Baseline {
  std::string name;
  Score score;
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

// Throws kInvalidData where a split asks for nothing.
Baselines MeasureBaselines(const Dataset& data, const BaselineOptions& options);

}  // namespace favor::lab

#endif  // FAVOR_LAB_BASELINES_H_
