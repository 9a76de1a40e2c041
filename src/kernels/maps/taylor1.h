// φ(x) = [1, x]: the Taylor polynomial of degree 1 of the softmax kernel, K = 1 + x·y: poly-exact
// with the coefficients 1, 1. Signed: K is negative for x·y < −1.
#ifndef FAVOR_KERNELS_MAPS_TAYLOR1_H_
#define FAVOR_KERNELS_MAPS_TAYLOR1_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Taylor1 : MonomialMap {
  static constexpr MapTraits kTraits = PolynomialTraits("taylor1", "[1, x]", /*is_random=*/false);
  static constexpr double kCoefficients[] = {1, 1};
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_TAYLOR1_H_
