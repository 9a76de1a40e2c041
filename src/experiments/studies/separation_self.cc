// Self-attention with X = I: one token among n, seen by softmax and not by linear attention
// (Superiority of Softmax, Figure 4).
#include "experiments/separation_self.h"

namespace favor::experiments {

Experiment SeparationSelfExperiment() {
  return {.name = "separation-self",
          .summary = "one token among n: self-attention with X = I",
          .subject = "Superiority of Softmax, Figure 4",
          .draws = {.quick = 20, .full = 2000, .paper = 10000},
          .seconds = {.quick = 1, .full = 15, .paper = 75},
          .run = [](ExperimentRun& run) { RunSelfSweeps(Between::kIdentity, run); },
          .parameters = SelfPointParameters(),
          .has_rules = true};
}

}  // namespace favor::experiments
