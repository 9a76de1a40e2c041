// No projection: u = x, as in the Linear Transformer (elu) and the deterministic ReLU features of
// public Performers. Generalized maps only; m = d.
#include "features/projection.h"

namespace favor::features {
namespace {

kernels::Omega Draw(const DrawRequest& request) {
  kernels::Omega omega{.features = request.dim, .dim = request.dim, .padded_dim = request.dim};
  omega.block_parameters.resize(1);
  omega.row_scale.assign(static_cast<size_t>(request.dim), 1.0f);
  return omega;
}

}  // namespace

ProjectionEntry NoneProjection() {
  return {.info = {.name = "none",
                   .summary = "u = x, no randomness: generalized maps only",
                   .cost = "O(d)"},
          .random = false,
          .omega_dim = [](int64_t dim) { return dim; },
          .haar_pairs = [](int64_t, int64_t) { return std::optional<double>(); },
          .draw = &Draw};
}

}  // namespace favor::features
