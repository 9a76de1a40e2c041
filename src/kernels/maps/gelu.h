// f(u) = u·Φ(u), the exact (erf) GELU; f′ = Φ(u) + u·ϕ(u).
#ifndef FAVOR_KERNELS_MAPS_GELU_H_
#define FAVOR_KERNELS_MAPS_GELU_H_

#include <cmath>
#include <numbers>

#include "kernels/map.h"

namespace favor::kernels {

struct Gelu : GeneralizedMap<Gelu> {
  static constexpr MapTraits kTraits =
      GeneralizedTraits("gelu", "GELU(ω·x) + ε", /*nonnegative=*/false);

  template <class T>
  FAVOR_HOST_DEVICE static T Function(T u) {
    return u * (T(0.5) * (T(1) + ErrorFunction(u * T(1 / std::numbers::sqrt2))));
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FunctionSlope(T u) {
    const T phi = T(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * Exponential(T(-0.5) * u * u);
    return T(0.5) * (T(1) + ErrorFunction(u * T(1 / std::numbers::sqrt2))) + u * phi;
  }

  static double ExactKernel(const Pair& pair) {
    const double a = pair.xx, b = pair.yy, c = pair.xy;
    const double determinant = (1 + a) * (1 + b) - c * c;
    const double algebraic =
        (a * b - a * c * c / (1 + a) - b * c * c / (1 + b) + c * c) / std::sqrt(determinant);
    return c / 4 +
           (algebraic + c * std::asin(c / std::sqrt((1 + a) * (1 + b)))) / (2 * std::numbers::pi);
  }
  static double Mean(double s) { return s * s / std::sqrt(2 * std::numbers::pi * (1 + s * s)); }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_GELU_H_
