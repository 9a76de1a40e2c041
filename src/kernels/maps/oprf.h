// Optimal positive random features (FAVOR++; Likhosherstov et al., Chefs' Random Tables, 2022):
// φ_r(x) = (1−4A)^{d/4}·exp(A‖ω_r‖² + B ω_r·x − ‖x‖²/2)/√m with A < 1/8 and B = √(1−4A), K =
// exp(x·y): the positive map under importance sampling of ω. Needs χ(d) lengths: with a constant
// ‖ω‖ the weights do nothing and K is biased.
#ifndef FAVOR_KERNELS_MAPS_OPRF_H_
#define FAVOR_KERNELS_MAPS_OPRF_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct Oprf : LinearExponentMap {
  static constexpr MapTraits kTraits{
      .info = {.name = "oprf",
               .formula = "(1−4A)^(d/4)·exp(A|ω|² + √(1−4A)·ω·x − |x|²/2)",
               .kernel = KernelFamily::kSoftmax,
               .nonnegative = true,
               .parts = 1,
               .default_epsilon = {},
               .takes_a = true},
      .norm_slope = -1,
      .only_norm = OmegaNorm::kChi};

  // log(E X²/K²) = d ln((1+t)/2) − (d/2) ln t + ‖x+y‖²/t with t = 1 − 8A. Two orthogonal rows:
  // weighting a χ(d) length by e^{2Ar²} rescales it by 1/B, which undoes B: the cross moment is
  // that of the positive map.
  static Moments Theory(const Pair& pair, const Law& law) {
    Moments moments = ExponentialMoments(-(pair.xx + pair.yy) / 2, pair.SumSquare() / 2, law);
    const auto d = static_cast<double>(law.dim);
    const double t = 1 - 8 * law.oprf_a;
    moments.second = std::exp(2 * pair.xy + d * std::log((1 + t) / 2) - d / 2 * std::log(t) +
                              pair.SumSquare() / t);
    return moments;
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_OPRF_H_
