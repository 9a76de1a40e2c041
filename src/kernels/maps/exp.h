// f(u) = e^u, kept in the exponent so that it cannot overflow: E = log(e^u + ε). K = e^{‖x+y‖²/2}
// at ε = 0.
#ifndef FAVOR_KERNELS_MAPS_EXP_H_
#define FAVOR_KERNELS_MAPS_EXP_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct Exp : ExponentialMap {
  static constexpr MapTraits kTraits{.info = {.name = "exp",
                                              .formula = "exp(ω·x) + ε",
                                              .kernel = KernelFamily::kGeneralized,
                                              .nonnegative = true,
                                              .parts = 1,
                                              .default_epsilon = kGeneralizedEpsilon},
                                     .norm_slope = 0,
                                     .may_skip_projection = true};

  // log(e^u + ε) = max + log(1 + e^{−|u − log ε|})
  template <class T>
  FAVOR_HOST_DEVICE static T Exponent(T u, int, T epsilon) {
    if (epsilon == T(0)) return u;
    const T other = Logarithm(epsilon);
    return Max(u, other) + LogOnePlus(Exponential(-Absolute(u - other)));
  }
  // e^u/(e^u + ε)
  template <class T>
  FAVOR_HOST_DEVICE static T ExponentSlope(T u, int, T epsilon) {
    if (epsilon == T(0)) return T(1);  // 0·∞ is NaN
    return T(1) / (T(1) + epsilon * Exponential(-u));
  }

  // With X = (e^u + ε)(e^v + ε): every moment is a sum of exponentials of normal variables. E
  // e^{iu+jv} = e^{(i²xx + 2ij·xy + j²yy)/2}.
  static Moments Theory(const Pair& pair, const Law& law) {
    const double e = law.epsilon;
    if (law.norm != OmegaNorm::kChi) return {};
    const auto mean = [&](double i, double j) {
      return std::exp((i * i * pair.xx + 2 * i * j * pair.xy + j * j * pair.yy) / 2);
    };
    Moments moments{.mean = mean(1, 1) + e * (mean(1, 0) + mean(0, 1)) + e * e,
                    .second = mean(2, 2) + 2 * e * (mean(2, 1) + mean(1, 2)) +
                              e * e * (mean(2, 0) + mean(0, 2) + 4 * mean(1, 1)) +
                              2 * e * e * e * (mean(1, 0) + mean(0, 1)) + e * e * e * e,
                    .cross = std::nullopt};
    if (e == 0)
      moments.cross = static_cast<double>(OrthogonalChiMean(pair.SumSquare() / 2, law.dim));
    return moments;
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_EXP_H_
