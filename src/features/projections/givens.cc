// Givens features (G-ORF): n·log2 n Givens rotations by random angles, in two butterfly passes,
// after one sign and one Hadamard factor. Without that factor an axis-aligned x meets too few
// rotations and the estimate is wrong by a factor of up to 21 (d = 64); with it a bias of about 1
// to 2 % stays.
#include "features/projection.h"

namespace favor::features {
namespace {

kernels::Omega Draw(const DrawRequest& request) {
  return StructuredBuilder(request, NextPowerOfTwo(request.dim))
      .Signs()
      .Hadamard()
      .ButterflyRotations()
      .ButterflyRotations()
      .Build();
}

}  // namespace

ProjectionEntry GivensProjection() {
  return {.info = {.name = "givens",
                   .summary = "Hadamard mixing and two butterflies of Givens rotations",
                   .cost = "O(m log d)"},
          .omega_dim = &NextPowerOfTwo,
          .haar_pairs = [](int64_t, int64_t) { return std::optional<double>(); },
          .draw = &Draw};
}

}  // namespace favor::features
