#include "kernels/features.h"

#include <cmath>

namespace favor::kernels {

void SetOprfA(double a, HeadFeatures& head) {
  const auto d = static_cast<double>(head.omega.dim);
  head.log_normalizer += d / 4 * (std::log(1 - 4 * a) - std::log(1 - 4 * head.oprf_a));
  head.oprf_a = a;
  head.argument_scale = std::sqrt(1 - 4 * a);
  for (size_t r = 0; r < head.offset.size(); ++r) head.offset[r] = a * head.squared_norm[r];
  head.offset_f32.assign(head.offset.begin(), head.offset.end());
}

}  // namespace favor::kernels
