// f(u) = elu(u) + 1 = u + 1 for u > 0, else e^u: the map of the Linear Transformer (Katharopoulos
// et al., 2020), which uses it without a projection. K by quadrature.
#ifndef FAVOR_KERNELS_MAPS_ELU_H_
#define FAVOR_KERNELS_MAPS_ELU_H_

#include <cmath>
#include <numbers>

#include "kernels/map.h"

namespace favor::kernels {

struct Elu : GeneralizedMap<Elu> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("elu", "elu(ω·x) + 1 + ε", /*nonnegative=*/true);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return IfPositive(u, u + T(1), Exponential(Min(u, T(0))));
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    return IfPositive(u, T(1), Exponential(Min(u, T(0))));
  }

  static double ExactKernel(const Pair& pair) { return QuadratureKernel(pair, &Function<double>); }
  static double Mean(double s) {
    constexpr double kFar = 25;  // the next term of the series is 6e-8 of the tail
    const double line = s / std::sqrt(2 * std::numbers::pi);
    const double tail =
        s < kFar ? std::exp(s * s / 2) * std::erfc(s / std::numbers::sqrt2) / 2
                 : (1 - 1 / (s * s) + 3 / (s * s * s * s)) / (s * std::sqrt(2 * std::numbers::pi));
    return line + tail + 0.5;
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_ELU_H_
