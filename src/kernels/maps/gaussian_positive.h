// Positive features of the Gaussian kernel: exp(ω_r·x − ‖x‖²)/√m, K = exp(−‖x−y‖²/2).
#ifndef FAVOR_KERNELS_MAPS_GAUSSIAN_POSITIVE_H_
#define FAVOR_KERNELS_MAPS_GAUSSIAN_POSITIVE_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct GaussianPositive : LinearExponentMap {
  static constexpr MapTraits kTraits{.info = {.name = "gaussian-positive",
                                              .formula = "exp(ω·x − |x|²)",
                                              .kernel = KernelFamily::kGaussian,
                                              .nonnegative = true,
                                              .parts = 1,
                                              .default_epsilon = {}},
                                     .norm_slope = -2};

  static Moments Theory(const Pair& pair, const Law& law) {
    return ExponentialMoments(-(pair.xx + pair.yy), pair.SumSquare() / 2, law);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_GAUSSIAN_POSITIVE_H_
