// Positive features times those of e^{−‖x−y‖₁/δ}: elements of the frequencies are Cauchy with scale
// 1/δ. K = exp(x·y − ‖x−y‖₁/δ). The mask's own variance, (1 − k²)/(2m), does not depend on d.
#ifndef FAVOR_KERNELS_MAPS_LOCAL_LAPLACE_H_
#define FAVOR_KERNELS_MAPS_LOCAL_LAPLACE_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct LocalLaplace : MaskedMap {
  static constexpr MapTraits kTraits =
      MaskedTraits("local-laplace", "exp(ω·x − |x|²/2)·[sin f·x ; cos f·x], f Cauchy");

  // X = Λe^{ω·z}·cos(f·r) with z = x + y and r = x − y; E cos²(f·r) = (1 + k(2r))/2.
  static Moments Theory(const Pair& pair, const Law& law) {
    Moments moments = ExponentialMoments(-(pair.xx + pair.yy) / 2, pair.SumSquare() / 2, law);
    const double mask = std::exp(-pair.difference / law.local_width);
    if (moments.mean) *moments.mean *= mask;
    if (moments.second) *moments.second *= (1 + mask * mask) / 2;
    if (moments.cross) *moments.cross *= mask * mask;
    return moments;
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_LOCAL_LAPLACE_H_
