// f(u) = cos u.
#ifndef FAVOR_KERNELS_MAPS_COS_H_
#define FAVOR_KERNELS_MAPS_COS_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct Cos : GeneralizedMap<Cos> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("cos", "cos(ω·x) + ε", /*nonnegative=*/false);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return Cosine(u);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    return -Sine(u);
  }

  static double ExactKernel(const Pair& pair) {
    return std::exp(-(pair.xx + pair.yy) / 2) * std::cosh(pair.xy);
  }
  static double Mean(double s) { return std::exp(-s * s / 2); }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_COS_H_
