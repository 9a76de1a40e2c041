// Random queries, keys and values, and how far the output of one attention is from another's.
#ifndef FAVOR_EXPERIMENTS_OUTPUTS_H_
#define FAVOR_EXPERIMENTS_OUTPUTS_H_

#include <cmath>
#include <cstdint>

#include "benchmarks/random_tensor.h"
#include "favor/tensor.h"

namespace favor::experiments {

// One head: queries and keys of the given standard deviation, values of deviation 1.
struct RandomInputs {
  RandomInputs(int64_t length, int64_t dim, double deviation, uint64_t seed)
      : q(benchmarks::RandomNormal({length, dim}, deviation, seed, "q")),
        k(benchmarks::RandomNormal({length, dim}, deviation, seed, "k")),
        v(benchmarks::RandomNormal({length, dim}, 1, seed, "v")) {}
  Tensor q, k, v;
};

// The seed of one of several samples of inputs.
inline uint64_t SeedOfSample(uint64_t seed, int64_t sample) {
  return seed * 1000003 + static_cast<uint64_t>(sample);
}

// An element of an f32 or f64 tensor.
inline double ElementOf(const Tensor& a, int64_t i) {
  return a.type() == DataType::kF64 ? a.Data<double>()[i] : static_cast<double>(a.Data<float>()[i]);
}

inline double MeanSquare(const Tensor& a) {
  double sum = 0;
  for (int64_t i = 0; i < a.shape().Elements(); ++i) sum += std::pow(ElementOf(a, i), 2);
  return sum / static_cast<double>(a.shape().Elements());
}

inline double MeanSquaredError(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.shape().Elements(); ++i)
    sum += std::pow(ElementOf(a, i) - ElementOf(b, i), 2);
  return sum / static_cast<double>(a.shape().Elements());
}

// ‖a − b‖/‖b‖
inline double RelativeError(const Tensor& a, const Tensor& b) {
  return std::sqrt(MeanSquaredError(a, b) / MeanSquare(b));
}

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_OUTPUTS_H_
