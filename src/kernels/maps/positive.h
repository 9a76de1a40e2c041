// The positive map of FAVOR+ (Performers, Lemma 1): φ_r(x) = exp(ω_r·x − ‖x‖²/2)/√m, K = exp(x·y).
// MSE over m independent rows: K²(e^{‖x+y‖²} − 1)/m.
#ifndef FAVOR_KERNELS_MAPS_POSITIVE_H_
#define FAVOR_KERNELS_MAPS_POSITIVE_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct Positive : LinearExponentMap {
  static constexpr MapTraits kTraits{.info = {.name = "positive",
                                              .formula = "exp(ω·x − |x|²/2)",
                                              .kernel = KernelFamily::kSoftmax,
                                              .nonnegative = true,
                                              .parts = 1,
                                              .default_epsilon = {}},
                                     .norm_slope = -1};

  static Moments Theory(const Pair& pair, const Law& law) {
    return ExponentialMoments(-(pair.xx + pair.yy) / 2, pair.SumSquare() / 2, law);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_POSITIVE_H_
