// φ(x) = [1, x, x_i²/√2, x_i x_j (i < j)]: the Taylor polynomial of degree 2 of the softmax kernel,
// K = 1 + s + s²/2 with s = x·y: poly-exact with the coefficients 1, 1, 1/2. Features are signed,
// but K ≥ 1/2 for every s. Pairs are ordered by distance, (0, 1), (1, 2), …, (0, 2), (1, 3), ….
//
// The sum over features in float loses digits of K for long x and y with a small s. With 16
// elements and s = −1, K = 1/2 comes out within 2e-5 if their standard deviation is 1, 3e-3 if it
// is 4, 5e-2 if it is 8; if it is 16, K can come out at or below 0.
#ifndef FAVOR_KERNELS_MAPS_TAYLOR_H_
#define FAVOR_KERNELS_MAPS_TAYLOR_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Taylor : MonomialMap {
  static constexpr MapTraits kTraits =
      PolynomialTraits("taylor", "[1, x, x_i²/√2, x_i·x_j (i < j)]", /*is_random=*/false);
  static constexpr double kCoefficients[] = {1, 1, 0.5};
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_TAYLOR_H_
