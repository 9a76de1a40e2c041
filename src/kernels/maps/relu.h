// f(u) = max(u, 0): the default generalized kernel of the Performers paper; K is the arc-cosine
// kernel of order 1.
#ifndef FAVOR_KERNELS_MAPS_RELU_H_
#define FAVOR_KERNELS_MAPS_RELU_H_

#include <cmath>
#include <numbers>

#include "kernels/map.h"

namespace favor::kernels {

struct Relu : GeneralizedMap<Relu> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("relu", "max(ω·x, 0) + ε", /*nonnegative=*/true);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return Max(u, T(0));
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    return IfPositive(u, T(1), T(0));
  }

  static double ExactKernel(const Pair& pair) {
    const double st = std::sqrt(pair.xx * pair.yy);
    const double theta = Angle(pair);
    return st / (2 * std::numbers::pi) *
           (std::sin(theta) + (std::numbers::pi - theta) * std::cos(theta));
  }
  static double Mean(double s) { return s / std::sqrt(2 * std::numbers::pi); }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_RELU_H_
