// Independent rows: ω_r ~ N(0, I); with √d lengths, uniform on the sphere of radius √d.
#include <cmath>

#include "features/projection.h"

namespace favor::features {
namespace {

kernels::Omega Draw(const DrawRequest& request) {
  const auto d = static_cast<size_t>(request.dim);
  std::vector<double> rows(static_cast<size_t>(request.features) * d);
  request.stream.Child(0).FillNormal(0, rows);
  if (request.norm == OmegaNorm::kSqrtD) {
    for (size_t begin = 0; begin < rows.size(); begin += d) {
      double square = 0;
      for (size_t i = begin; i < begin + d; ++i) square += rows[i] * rows[i];
      const double scale = std::sqrt(static_cast<double>(d) / square);
      for (size_t i = begin; i < begin + d; ++i) rows[i] *= scale;
    }
  }
  return DenseOmega(request.features, request.dim, rows);
}

}  // namespace

ProjectionEntry GaussianProjection() {
  return {.info = {.name = "gaussian", .summary = "independent Gaussian rows", .cost = "O(m d)"},
          .omega_dim = [](int64_t dim) { return dim; },
          .haar_pairs = [](int64_t, int64_t) { return std::optional(0.0); },
          .draw = &Draw};
}

}  // namespace favor::features
