// Statistics of an estimator over many draws of ω.
#ifndef FAVOR_EXPERIMENTS_ESTIMATE_H_
#define FAVOR_EXPERIMENTS_ESTIMATE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/verdict.h"
#include "favor/context.h"
#include "favor/features.h"

namespace favor::experiments {

// Two vectors, x and y.
struct VectorPair {
  std::vector<double> x, y;

  double Dot() const;
  double SumSquare() const;  // ‖x + y‖²
};

// Two generic vectors (no zero coordinates) with ‖x‖ = ‖y‖ = `norm` and the given angle.
VectorPair GenericPair(int64_t dim, double norm, double angle, uint64_t seed);

// Draws of ω that have nothing to do with those of other figures: how many, and which.
struct Draws {
  int64_t count = 0;
  uint64_t figure = 0;  // another number, other draws
};

// φ(x)·φ(y) for each draw of ω, in double. The same numbers for any number of threads.
std::vector<double> DrawEstimates(const FeatureOptions& options, const VectorPair& pair,
                                  const Draws& draws, const Context& context);

// Of values that are independent and alike.
struct Estimate {
  Measured mean;
  Measured variance;  // of one value; its standard error from the fourth moment
};
Estimate Summarize(std::span<const double> values);

// The share of values above `bound`; the standard error of a share near 0 or 1 is that of a share
// with one hit, or one miss, more.
Measured ShareAbove(std::span<const double> values, double bound);

inline Estimate MeasureEstimator(const FeatureOptions& options, const VectorPair& pair,
                                 const Draws& draws, const Context& context) {
  return Summarize(DrawEstimates(options, pair, draws, context));
}

// The relative standard error that the variance of `draws` estimates by m independent rows will
// have, of the maps positive and hyperbolic with rows of χ length: their terms are lognormal, or
// the mean of two such, which for short x + y is the square of a normal number. For long x + y no
// number of draws in reach shows their variance.
double ErrorOfVariance(double sum_square, int64_t features, int64_t draws);

// Options of a map; oprf gets the A that is best for this pair.
FeatureOptions OptionsFor(std::string_view map, std::string_view projection, int64_t features,
                          const VectorPair& pair);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_ESTIMATE_H_
