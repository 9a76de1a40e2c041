// Arrays to measure with.
#ifndef FAVOR_BENCHMARKS_RANDOM_TENSOR_H_
#define FAVOR_BENCHMARKS_RANDOM_TENSOR_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "favor/random.h"
#include "favor/tensor.h"

namespace favor::benchmarks {

// Independent normal numbers, f32.
inline Tensor RandomNormal(const Shape& shape, double deviation, uint64_t seed,
                           std::string_view stream) {
  constexpr int64_t kAtATime = 4096;
  Tensor tensor(shape);
  float* out = tensor.Data<float>();
  const RandomStream numbers(seed, stream);
  std::vector<double> values;
  for (int64_t first = 0; first < shape.Elements(); first += kAtATime) {
    values.resize(static_cast<size_t>(std::min(kAtATime, shape.Elements() - first)));
    numbers.FillNormal(static_cast<uint64_t>(first), values);
    for (const double value : values) *out++ = static_cast<float>(deviation * value);
  }
  return tensor;
}

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_RANDOM_TENSOR_H_
