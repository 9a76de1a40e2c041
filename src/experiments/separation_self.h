// The sweeps of self-attention, which two experiments share: X is the identity or of ones.
#ifndef FAVOR_EXPERIMENTS_SEPARATION_SELF_H_
#define FAVOR_EXPERIMENTS_SEPARATION_SELF_H_

#include <vector>

#include "experiments/experiment.h"
#include "experiments/separation.h"

namespace favor::experiments {

void RunSelfSweeps(Between between, ExperimentRun& run);  // or the point that is given
std::vector<PointParameter> SelfPointParameters();

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_SELF_H_
