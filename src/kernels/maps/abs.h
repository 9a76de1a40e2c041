// f(u) = |u|.
#ifndef FAVOR_KERNELS_MAPS_ABS_H_
#define FAVOR_KERNELS_MAPS_ABS_H_

#include <cmath>
#include <numbers>

#include "kernels/map.h"

namespace favor::kernels {

struct Abs : GeneralizedMap<Abs> {
  static constexpr MapTraits kTraits = GeneralizedTraits("abs", "|ω·x| + ε", /*nonnegative=*/true);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return Absolute(u);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    return IfPositive(u, T(1), IfPositive(-u, T(-1), T(0)));
  }

  static double ExactKernel(const Pair& pair) {
    const double st = std::sqrt(pair.xx * pair.yy);
    const double theta = Angle(pair);
    return 2 * st / std::numbers::pi *
           (std::sin(theta) + (std::numbers::pi / 2 - theta) * std::cos(theta));
  }
  static double Mean(double s) { return s * std::sqrt(2 / std::numbers::pi); }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_ABS_H_
