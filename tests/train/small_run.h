// A run of twelve steps with three evaluations and several checkpoints.
#ifndef FAVOR_TESTS_TRAIN_SMALL_RUN_H_
#define FAVOR_TESTS_TRAIN_SMALL_RUN_H_

#include "favor/train.h"

namespace favor {

inline RunConfig SmallRun() {
  RunConfig run{.data = "task:copy,length=6,symbols=5"};
  run.model.width = 16;
  run.model.heads = 2;
  run.model.ff = 24;
  run.model.features.features = 16;
  run.training.steps = 12;
  run.training.batch = 4;
  run.training.warmup = 3;
  run.training.redraw = 5;
  run.training.eval_every = 4;
  run.training.eval_batches = 2;
  run.training.save_every = 5;
  return run;
}

}  // namespace favor

#endif  // FAVOR_TESTS_TRAIN_SMALL_RUN_H_
