// f(u) = tanh u; no closed form of K: quadrature.
#ifndef FAVOR_KERNELS_MAPS_TANH_H_
#define FAVOR_KERNELS_MAPS_TANH_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Tanh : GeneralizedMap<Tanh> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("tanh", "tanh(ω·x) + ε", /*nonnegative=*/false);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return HyperbolicTangent(u);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    const T value = HyperbolicTangent(u);
    return T(1) - value * value;
  }

  static double ExactKernel(const Pair& pair) { return QuadratureKernel(pair, &Function<double>); }
  static double Mean(double) { return 0; }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_TANH_H_
