// f(u) = sign(u), 0 at 0: K is linear in the angle. Its derivative is 0 almost everywhere: it
// cannot be trained through.
#ifndef FAVOR_KERNELS_MAPS_SGN_H_
#define FAVOR_KERNELS_MAPS_SGN_H_

#include <numbers>

#include "kernels/map.h"

namespace favor::kernels {

struct Sgn : GeneralizedMap<Sgn> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("sgn", "sign(ω·x) + ε", /*nonnegative=*/false);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return IfPositive(u, T(1), IfPositive(-u, T(-1), T(0)));
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T) {
    return T(0);
  }

  static double ExactKernel(const Pair& pair) { return 1 - 2 * Angle(pair) / std::numbers::pi; }
  static double Mean(double) { return 0; }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_SGN_H_
