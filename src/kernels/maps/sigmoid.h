// f(u) = 1/(1 + e^{−u}); no closed form of K: quadrature.
#ifndef FAVOR_KERNELS_MAPS_SIGMOID_H_
#define FAVOR_KERNELS_MAPS_SIGMOID_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Sigmoid : GeneralizedMap<Sigmoid> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("sigmoid", "σ(ω·x) + ε", /*nonnegative=*/true);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return T(1) / (T(1) + Exponential(-u));
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    const T value = Function(u);
    return value * (T(1) - value);
  }

  static double ExactKernel(const Pair& pair) { return QuadratureKernel(pair, &Function<double>); }
  static double Mean(double) { return 0.5; }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_SIGMOID_H_
