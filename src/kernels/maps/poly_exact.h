// φ(x): all monomials of x of the degrees of a polynomial, each once, weighted so that φ(x)·φ(y) =
// Σ_k c_k s^k with s = x·y, exactly and without ω. C(d + k − 1, k) columns for degree k: for few
// dims and small degrees.
#ifndef FAVOR_KERNELS_MAPS_POLY_EXACT_H_
#define FAVOR_KERNELS_MAPS_POLY_EXACT_H_

#include "kernels/map.h"

namespace favor::kernels {

struct PolyExact : MonomialMap {
  static constexpr MapTraits kTraits = PolynomialTraits(
      "poly-exact", "√(c_k·n)·x_i1·…·x_ik, i1 ≤ … ≤ ik, n orders of them", /*is_random=*/false);
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_POLY_EXACT_H_
