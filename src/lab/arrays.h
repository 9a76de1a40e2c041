// Arrays for measurements.
#ifndef FAVOR_LAB_ARRAYS_H_
#define FAVOR_LAB_ARRAYS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "favor/random.h"
#include "favor/tensor.h"

namespace favor::lab {

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

}  // namespace favor::lab

#endif  // FAVOR_LAB_ARRAYS_H_
