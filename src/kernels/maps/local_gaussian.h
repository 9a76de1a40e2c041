// Positive features of exp(x·y)·e^{−‖x−y‖²/(2δ²)}, at no cost: with a = 1 + 1/δ² the kernel is
// e^{a·x·y}·e^{−(a−1)(‖x‖²+‖y‖²)/2}, hence φ_r(x) = exp(√a ω_r·x − (2a − 1)‖x‖²/2)/√m. Positive:
// denominators do not vanish.
#ifndef FAVOR_KERNELS_MAPS_LOCAL_GAUSSIAN_H_
#define FAVOR_KERNELS_MAPS_LOCAL_GAUSSIAN_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct LocalGaussian : LinearExponentMap {
  // The slope of the norm is −(2a − 1); HeadFeatures holds it.
  static constexpr MapTraits kTraits{.info = {.name = "local-gaussian",
                                              .formula = "exp(√a ω·x − (2a−1)|x|²/2), a = 1 + 1/δ²",
                                              .kernel = KernelFamily::kLocal,
                                              .nonnegative = true,
                                              .parts = 1,
                                              .default_epsilon = {},
                                              .takes_width = true},
                                     .norm_slope = 0,
                                     .only_norm = OmegaNorm::kChi};

  static double A(double width) { return 1 + 1 / (width * width); }

  static Moments Theory(const Pair& pair, const Law& law) {
    const double a = A(law.local_width);
    return ExponentialMoments(-(2 * a - 1) * (pair.xx + pair.yy) / 2, a * pair.SumSquare() / 2,
                              law);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_LOCAL_GAUSSIAN_H_
