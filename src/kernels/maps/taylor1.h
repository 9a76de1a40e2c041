// φ(x) = [1, x]: the Taylor polynomial of degree 1 of the softmax kernel, K = 1 + x·y: exact,
// without ω. Signed: K is negative for x·y < −1.
#ifndef FAVOR_KERNELS_MAPS_TAYLOR1_H_
#define FAVOR_KERNELS_MAPS_TAYLOR1_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Taylor1 : RowMap {
  static constexpr MapTraits kTraits{.info = {.name = "taylor1",
                                              .formula = "[1, x]",
                                              .kernel = KernelFamily::kPolynomial,
                                              .nonnegative = false,
                                              .parts = 1,
                                              .default_epsilon = {},
                                              .has_omega = false},
                                     .norm_slope = 0,
                                     .has_factor = true};

  static int64_t Width(int64_t dim) { return dim + 1; }

  template <class T>
  FAVOR_HOST_DEVICE static void Factors(const T* x, int64_t dim, T* factors) {
    factors[0] = T(1);
    for (int64_t i = 0; i < dim; ++i) factors[i + 1] = x[i];
  }
  template <class T>
  FAVOR_HOST_DEVICE static void Backward(const T*, int64_t dim, const T* grad_factors, T* grad_x) {
    for (int64_t i = 0; i < dim; ++i) grad_x[i] = grad_factors[i + 1];
  }

  static Moments Theory(const Pair& pair, const Law&) {
    const double kernel = 1 + pair.xy;
    return {.mean = kernel, .second = kernel * kernel, .cross = kernel * kernel};
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_TAYLOR1_H_
