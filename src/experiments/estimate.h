// Statistics of an estimator over many draws of ω.
#ifndef FAVOR_EXPERIMENTS_ESTIMATE_H_
#define FAVOR_EXPERIMENTS_ESTIMATE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "favor/context.h"
#include "favor/features.h"

namespace favor::experiments {

struct Estimate {
  double mean = 0;            // mean of φ(x)·φ(y) over draws
  double standard_error = 0;  // standard error of the mean
  double variance = 0;        // variance of one draw
};

// Draws ω `draws` times (redraw 0, 1, …) and computes φ(x)·φ(y) for each, in double. The same
// numbers for any number of threads.
Estimate MeasureEstimator(const FeatureOptions& options, const std::vector<double>& x,
                          const std::vector<double>& y, int64_t draws, const Context& context);

// Two generic vectors (no zero coordinates) with ‖x‖ = ‖y‖ = `norm` and the given angle.
std::pair<std::vector<double>, std::vector<double>> GenericPair(int64_t dim, double norm,
                                                                double angle, uint64_t seed);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_ESTIMATE_H_
