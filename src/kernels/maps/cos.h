// f(u) = cos u.
#ifndef FAVOR_KERNELS_MAPS_COS_H_
#define FAVOR_KERNELS_MAPS_COS_H_

#include <array>
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

  // (cos u + ε)² = ½ + ε² + 2ε cos u + ½ cos 2u: all moments are those of cosines, E cos iu cos jv
  // = ½[e^{−‖ix+jy‖²/2} + e^{−‖ix−jy‖²/2}]. A quadrature would have to resolve their oscillation.
  static Moments Theory(const Pair& pair, const Law& law) {
    if (law.norm != OmegaNorm::kChi) return {};
    const auto product = [&](const std::array<double, 3>& waves) {
      double sum = 0;
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) {
          const double squares = i * i * pair.xx + j * j * pair.yy, cross = 2 * i * j * pair.xy;
          sum += waves[static_cast<size_t>(i)] * waves[static_cast<size_t>(j)] *
                 (std::exp(-(squares + cross) / 2) + std::exp(-(squares - cross) / 2)) / 2;
        }
      }
      return sum;
    };
    const double e = law.epsilon;
    return {.mean = product({e, 1, 0}),
            .second = product({0.5 + e * e, 2 * e, 0.5}),
            .cross = std::nullopt};
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_COS_H_
