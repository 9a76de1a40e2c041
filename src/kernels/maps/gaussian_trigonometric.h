// Random Fourier features: [sin ω_r·x ; cos ω_r·x]/√m, K = exp(−‖x−y‖²/2). Signed, bounded by 1/√m.
#ifndef FAVOR_KERNELS_MAPS_GAUSSIAN_TRIGONOMETRIC_H_
#define FAVOR_KERNELS_MAPS_GAUSSIAN_TRIGONOMETRIC_H_

#include "kernels/map.h"

namespace favor::kernels {

struct GaussianTrigonometric : TrigonometricMap {
  static constexpr MapTraits kTraits{.info = {.name = "gaussian-trigonometric",
                                              .formula = "[sin ω·x ; cos ω·x]",
                                              .kernel = KernelFamily::kGaussian,
                                              .nonnegative = false,
                                              .parts = 2,
                                              .default_epsilon = {}},
                                     .norm_slope = 0,
                                     .has_factor = true};

  static Moments Theory(const Pair& pair, const Law& law) {
    return EvenMoments(0, -pair.DifferenceSquare() / 2, law);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_GAUSSIAN_TRIGONOMETRIC_H_
