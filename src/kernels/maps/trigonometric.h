// The trigonometric map (random Fourier features times e^{‖x‖²/2}): e^{‖x‖²/2}[sin ω_r·x ; cos
// ω_r·x]/√m, K = exp(x·y). MSE = e^{‖x‖²+‖y‖²}(1 − e^{−‖x−y‖²})²/(2m): good near x = y, useless
// where the kernel is small; signed.
#ifndef FAVOR_KERNELS_MAPS_TRIGONOMETRIC_H_
#define FAVOR_KERNELS_MAPS_TRIGONOMETRIC_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct Trigonometric : TrigonometricMap {
  static constexpr MapTraits kTraits{.info = {.name = "trigonometric",
                                              .formula = "exp(|x|²/2)·[sin ω·x ; cos ω·x]",
                                              .kernel = KernelFamily::kSoftmax,
                                              .nonnegative = false,
                                              .parts = 2,
                                              .default_epsilon = {}},
                                     .norm_slope = 1,
                                     .has_factor = true};

  static Moments Theory(const Pair& pair, const Law& law) {
    return EvenMoments((pair.xx + pair.yy) / 2, -pair.DifferenceSquare() / 2, law);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_TRIGONOMETRIC_H_
