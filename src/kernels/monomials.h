// Columns of φ that are monomials of a row, weighted so that their products add up to c_k s^k
// exactly: by definition, for the reference and GPUs. The CPU's vectors have a form of their own
// (cpu/simd/monomials-inl.h).
#ifndef FAVOR_KERNELS_MONOMIALS_H_
#define FAVOR_KERNELS_MONOMIALS_H_

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "kernels/polynomial_shape.h"

namespace favor::kernels {

// What a row map reads besides the row: the shape that all heads share, and the numbers drawn for
// one of them. Plain pointers, so that a GPU can be given copies.
struct RowMapTables {
  int64_t dim = 0;
  const PolynomialBlock* blocks = nullptr;
  int64_t block_count = 0;
  const MonomialRun* runs = nullptr;
  int64_t run_count = 0;
  const int32_t* table = nullptr;
};

// The places of the factors of monomial `i` of a run, last factor first.
FAVOR_HOST_DEVICE inline void FactorPlaces(const RowMapTables& tables, int64_t run, int64_t i,
                                           int64_t* places) {
  for (int64_t r = run; r >= 0; r = tables.runs[r].parent) *places++ = i + tables.runs[r].shift;
}

template <class T>
FAVOR_HOST_DEVICE void MonomialColumns(const T* x, const RowMapTables& tables, T* factors) {
  if (tables.block_count > 0 && tables.blocks[0].degree == 0)
    factors[tables.blocks[0].first] =
        static_cast<T>(std::sqrt(std::fabs(tables.blocks[0].coefficient)));
  int64_t places[kMaxPolynomialDegree];
  for (int64_t r = 0; r < tables.run_count; ++r) {
    const MonomialRun& run = tables.runs[r];
    for (int64_t i = 0; run.column >= 0 && i < run.length; ++i) {
      FactorPlaces(tables, r, i, places);
      T product = T(1);
      for (int t = run.degree - 1; t >= 0; --t) product *= x[places[t]];
      factors[run.column + i] = product * static_cast<T>(run.weight);
    }
  }
}

// Adds to grad_x.
template <class T>
FAVOR_HOST_DEVICE void MonomialColumnsBackward(const T* x, const RowMapTables& tables,
                                               const T* grad_factors, T* grad_x) {
  int64_t places[kMaxPolynomialDegree];
  for (int64_t r = 0; r < tables.run_count; ++r) {
    const MonomialRun& run = tables.runs[r];
    for (int64_t i = 0; run.column >= 0 && i < run.length; ++i) {
      FactorPlaces(tables, r, i, places);
      for (int t = 0; t < run.degree; ++t) {
        T others = grad_factors[run.column + i] * static_cast<T>(run.weight);
        for (int u = 0; u < run.degree; ++u) others *= u == t ? T(1) : x[places[u]];
        grad_x[places[t]] += others;
      }
    }
  }
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MONOMIALS_H_
