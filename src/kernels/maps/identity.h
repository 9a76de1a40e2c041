// f(u) = u: K = x·y, linear attention without a feature map.
#ifndef FAVOR_KERNELS_MAPS_IDENTITY_H_
#define FAVOR_KERNELS_MAPS_IDENTITY_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Identity : GeneralizedMap<Identity> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("identity", "ω·x + ε", /*nonnegative=*/false);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return u;
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T) {
    return T(1);
  }

  static double ExactKernel(const Pair& pair) { return pair.xy; }
  static double Mean(double) { return 0; }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_IDENTITY_H_
