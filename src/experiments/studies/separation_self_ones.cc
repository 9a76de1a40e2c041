// Self-attention with X of ones: one token among n, seen by softmax and not by linear attention
// (Superiority of Softmax, Figure 5).
#include "experiments/separation_self.h"

namespace favor::experiments {

Experiment SeparationSelfOnesExperiment() {
  return {.name = "separation-self-ones",
          .summary = "one token among n: self-attention with X of ones",
          .subject = "Superiority of Softmax, Figure 5",
          .draws = {.quick = 20, .full = 2000, .paper = 10000},
          .seconds = {.quick = 1, .full = 15, .paper = 75},
          .run = [](ExperimentRun& run) { RunSelfSweeps(Between::kOnes, run); },
          .parameters = SelfPointParameters(),
          .has_rules = true};
}

}  // namespace favor::experiments
