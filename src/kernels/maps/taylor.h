// φ(x) = [1, x, x_i²/√2, x_i x_j (i < j)]: the Taylor polynomial of degree 2 of the softmax kernel,
// K = 1 + s + s²/2 with s = x·y, exactly and without ω. Features are signed, but K ≥ 1/2 for every
// s. Pairs are ordered by distance, (0, 1), (1, 2), …, (0, 2), (1, 3), …: pairs of one distance are
// products of two runs of x, which vectors read and write as they lie.
//
// The sum over features in float loses digits of K for long x and y with a small s. With 16
// elements and s = −1, K = 1/2 comes out within 2e-5 if their standard deviation is 1, 3e-3 if it
// is 4, 5e-2 if it is 8; if it is 16, K can come out at or below 0.
#ifndef FAVOR_KERNELS_MAPS_TAYLOR_H_
#define FAVOR_KERNELS_MAPS_TAYLOR_H_

#include "kernels/map.h"

namespace favor::kernels {

struct Taylor : RowMap {
  static constexpr MapTraits kTraits{.info = {.name = "taylor",
                                              .formula = "[1, x, x_i²/√2, x_i·x_j (i < j)]",
                                              .kernel = KernelFamily::kPolynomial,
                                              .nonnegative = false,
                                              .parts = 1,
                                              .default_epsilon = {},
                                              .has_omega = false},
                                     .norm_slope = 0,
                                     .has_factor = true};
  static constexpr double kSqrt2 = 1.41421356237309504880;

  static int64_t Width(int64_t dim) { return 1 + dim + dim * (dim + 1) / 2; }

  template <class T>
  FAVOR_HOST_DEVICE static void Factors(const T* x, int64_t dim, T* factors) {
    *factors++ = T(1);
    for (int64_t i = 0; i < dim; ++i) *factors++ = x[i];
    for (int64_t i = 0; i < dim; ++i) *factors++ = x[i] * x[i] * T(1 / kSqrt2);
    for (int64_t distance = 1; distance < dim; ++distance) {
      for (int64_t i = 0; i + distance < dim; ++i) *factors++ = x[i] * x[i + distance];
    }
  }
  // dx_i = g_i + √2 g_ii x_i + Σ_{j ≠ i} g_ij x_j
  template <class T>
  FAVOR_HOST_DEVICE static void Backward(const T* x, int64_t dim, const T* grad_factors,
                                         T* grad_x) {
    const T *linear = grad_factors + 1, *squares = linear + dim, *pair = squares + dim;
    for (int64_t i = 0; i < dim; ++i) grad_x[i] = linear[i] + T(kSqrt2) * squares[i] * x[i];
    for (int64_t distance = 1; distance < dim; ++distance) {
      for (int64_t i = 0; i + distance < dim; ++i, ++pair) {
        grad_x[i] += *pair * x[i + distance];
        grad_x[i + distance] += *pair * x[i];
      }
    }
  }

  static Moments Theory(const Pair& pair, const Law&) {
    const double kernel = 1 + pair.xy + pair.xy * pair.xy / 2;
    return {.mean = kernel, .second = kernel * kernel, .cross = kernel * kernel};
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_TAYLOR_H_
