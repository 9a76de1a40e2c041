// The hyperbolic map of FAVOR+ (Performers, Lemma 1): [exp(ω_r·x) ;
// exp(−ω_r·x)]·exp(−‖x‖²/2)/√(2m), K = exp(x·y): the positive map on antithetic pairs ±ω. MSE(m) =
// (1 − e^{−‖x+y‖²})/2 · MSE of `positive` with m rows.
#ifndef FAVOR_KERNELS_MAPS_HYPERBOLIC_H_
#define FAVOR_KERNELS_MAPS_HYPERBOLIC_H_

#include <cmath>
#include <numbers>

#include "kernels/map.h"

namespace favor::kernels {

struct Hyperbolic : ExponentialMap {
  static constexpr MapTraits kTraits{
      .info = {.name = "hyperbolic",
               .formula = "[exp(ω·x − |x|²/2) ; exp(−ω·x − |x|²/2)]/√2",
               .kernel = KernelFamily::kSoftmax,
               .nonnegative = true,
               .parts = 2,
               .default_epsilon = {}},
      .norm_slope = -1,
      .normalizer = 1 / std::numbers::sqrt2};

  template <class T>
  FAVOR_HOST_DEVICE static T Exponent(T u, int part, T) {
    return part == 0 ? u : -u;
  }
  template <class T>
  FAVOR_HOST_DEVICE static T ExponentSlope(T, int part, T) {
    return part == 0 ? T(1) : T(-1);
  }

  static Moments Theory(const Pair& pair, const Law& law) {
    return EvenMoments(-(pair.xx + pair.yy) / 2, pair.SumSquare() / 2, law);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_HYPERBOLIC_H_
