// Sum-decomposing features of a polynomial of s = x·y: column j of degree k is √(c_k d^k/m)·Π_t
// x_{i_jt} with k places i_jt drawn uniformly and independently. Unbiased, and cheap: k products
// per column. Its error is that of Π_t d·x_i y_i at random places, so that it is large for sparse
// rows: a rotation shared by queries and keys, which keeps s, spreads them
// (FeatureOptions::rotate).
#ifndef FAVOR_KERNELS_MAPS_POLY_SUM_H_
#define FAVOR_KERNELS_MAPS_POLY_SUM_H_

#include <cmath>

#include "kernels/map.h"

namespace favor::kernels {

struct PolySum : RowMap {
  static constexpr MapTraits kTraits =
      PolynomialTraits("poly-sum", "√(c_k·d^k/m)·x_i1·…·x_ik, places drawn", /*is_random=*/true);
  static constexpr TableLayout kLayout = TableLayout::kIndices;

  static double Scale(const PolynomialBlock& block, int64_t dim) {
    return std::sqrt(std::fabs(block.coefficient) *
                     std::pow(static_cast<double>(dim), block.degree) /
                     static_cast<double>(block.columns));
  }

  // Inlined, so that each SIMD target has loops of its own.
  template <class T>
  [[gnu::always_inline]] static inline void Factors(const T* x, const RowMapTables& tables,
                                                    T* factors) {
    MonomialColumns(x, tables, factors);
    for (int64_t b = 0; b < tables.block_count; ++b) {
      const PolynomialBlock& block = tables.blocks[b];
      if (block.table < 0) continue;
      const auto scale = static_cast<T>(Scale(block, tables.dim));
      T* columns = factors + block.first;
      for (int64_t j = 0; j < block.columns; ++j) columns[j] = scale;
      for (int t = 0; t < block.degree; ++t) {
        const int32_t* places = tables.table + block.table + t * block.columns;
        for (int64_t j = 0; j < block.columns; ++j) columns[j] *= x[places[j]];
      }
    }
  }

  template <class T>
  [[gnu::always_inline]] static inline void Backward(const T* x, const RowMapTables& tables,
                                                     const T* grad_factors, T* grad_x) {
    for (int64_t i = 0; i < tables.dim; ++i) grad_x[i] = T(0);
    MonomialColumnsBackward(x, tables, grad_factors, grad_x);
    for (int64_t b = 0; b < tables.block_count; ++b) {
      const PolynomialBlock& block = tables.blocks[b];
      if (block.table < 0) continue;
      const auto scale = static_cast<T>(Scale(block, tables.dim));
      const int32_t* places = tables.table + block.table;
      T before[kMaxPolynomialDegree];  // products of the factors before each
      for (int64_t j = 0; j < block.columns; ++j) {
        T product = scale * grad_factors[block.first + j];
        for (int t = 0; t < block.degree; ++t) {
          before[t] = product;
          product *= x[places[t * block.columns + j]];
        }
        T after = T(1);
        for (int t = block.degree - 1; t >= 0; --t) {
          grad_x[places[t * block.columns + j]] += before[t] * after;
          after *= x[places[t * block.columns + j]];
        }
      }
    }
  }

  // ((d·Σ x_i² y_i²)^k − s^{2k})/m; the notes on custom kernels print s^k. A rotation by signs and
  // a Hadamard matrix leaves (‖x‖²‖y‖² + 2s² − 2 Σ x_i² y_i²) of d·Σ x_i² y_i² in the mean, but its
  // powers are not known.
  static std::optional<double> UnitMse(const Pair& pair, int degree, int64_t columns, int64_t dim,
                                       bool rotated) {
    if (rotated) return std::nullopt;
    return (std::pow(static_cast<double>(dim) * pair.squares, degree) -
            std::pow(pair.xy, 2 * degree)) /
           static_cast<double>(columns);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_POLY_SUM_H_
