// TensorSketch (Pham and Pagh, 2013) of a polynomial of s = x·y: columns of degree k are the
// circular convolution of k count sketches of x, each with buckets and signs of its own, times
// √c_k. Unbiased; its error does not depend on how sparse rows are. Here by the definition of a
// convolution, O(k·m·d) per row; the CPU's vectors use a Fourier transform, O(k(d + m log m)),
// where m is a power of two (cpu/simd/sketch-inl.h).
#ifndef FAVOR_KERNELS_MAPS_POLY_SKETCH_H_
#define FAVOR_KERNELS_MAPS_POLY_SKETCH_H_

#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/map.h"

namespace favor::kernels {

struct PolySketch : RowMap {
  static constexpr MapTraits kTraits =
      PolynomialTraits("poly-sketch", "√c_k·(sketch_1(x) ∗ … ∗ sketch_k(x))", /*is_random=*/true);
  static constexpr TableLayout kLayout = TableLayout::kBuckets;

  static double Scale(const PolynomialBlock& block) {
    return std::sqrt(std::fabs(block.coefficient));
  }

  // y = a ∗ sketch, all of `size` elements; entries are ±(bucket + 1).
  template <class T>
  static void Convolve(const T* a, int64_t size, const T* x, const int32_t* entries, int64_t dim,
                       T* y) {
    for (int64_t j = 0; j < size; ++j) y[j] = T(0);
    for (int64_t i = 0; i < dim; ++i) {
      const int64_t bucket = std::abs(entries[i]) - 1;
      const T value = entries[i] < 0 ? -x[i] : x[i];
      for (int64_t j = 0; j < size - bucket; ++j) y[j + bucket] += value * a[j];
      for (int64_t j = size - bucket; j < size; ++j) y[j + bucket - size] += value * a[j];
    }
  }

  // products[k·columns …] = √c·(sketch_1 ∗ … ∗ sketch_k), from k = 0 on.
  template <class T>
  static std::vector<T> Products(const T* x, const RowMapTables& tables,
                                 const PolynomialBlock& block) {
    const int64_t size = block.columns;
    std::vector<T> products(static_cast<size_t>((block.degree + 1) * size), T(0));
    products[0] = static_cast<T>(Scale(block));
    for (int t = 0; t < block.degree; ++t)
      Convolve(products.data() + t * size, size, x, tables.table + block.table + t * tables.dim,
               tables.dim, products.data() + (t + 1) * size);
    return products;
  }

  template <class T>
  static void Factors(const T* x, const RowMapTables& tables, T* factors) {
    MonomialColumns(x, tables, factors);
    for (int64_t b = 0; b < tables.block_count; ++b) {
      if (tables.blocks[b].table >= 0) BlockFactors(x, tables, tables.blocks[b], factors);
    }
  }
  template <class T>
  static void BlockFactors(const T* x, const RowMapTables& tables, const PolynomialBlock& block,
                           T* factors) {
    const std::vector<T> products = Products(x, tables, block);
    for (int64_t j = 0; j < block.columns; ++j)
      factors[block.first + j] = products[static_cast<size_t>(block.degree * block.columns + j)];
  }

  template <class T>
  static void Backward(const T* x, const RowMapTables& tables, const T* grad_factors, T* grad_x) {
    for (int64_t i = 0; i < tables.dim; ++i) grad_x[i] = T(0);
    MonomialColumnsBackward(x, tables, grad_factors, grad_x);
    for (int64_t b = 0; b < tables.block_count; ++b) {
      if (tables.blocks[b].table >= 0)
        BlockBackward(x, tables, tables.blocks[b], grad_factors, grad_x);
    }
  }
  // Adds to grad_x. From the last convolution to the first, y = a ∗ sketch: grad_a_j = Σ_i ±x_i
  // grad_y_{j + bucket_i} and grad_x_i += ±Σ_j a_j grad_y_{j + bucket_i}.
  template <class T>
  static void BlockBackward(const T* x, const RowMapTables& tables, const PolynomialBlock& block,
                            const T* grad_factors, T* grad_x) {
    const int64_t size = block.columns;
    const std::vector<T> products = Products(x, tables, block);
    std::vector<T> grad_y(grad_factors + block.first, grad_factors + block.first + size);
    std::vector<T> grad_a(grad_y.size());
    for (int t = block.degree - 1; t >= 0; --t) {
      const int32_t* entries = tables.table + block.table + t * tables.dim;
      const T* a = products.data() + t * size;
      for (T& value : grad_a) value = T(0);
      for (int64_t i = 0; i < tables.dim; ++i) {
        const int64_t bucket = std::abs(entries[i]) - 1;
        const T sign = entries[i] < 0 ? T(-1) : T(1);
        T sum = T(0);
        for (int64_t j = 0; j < size; ++j) {
          const T gradient = grad_y[static_cast<size_t>((j + bucket) % size)];
          grad_a[static_cast<size_t>(j)] += sign * x[i] * gradient;
          sum += a[j] * gradient;
        }
        grad_x[i] += sign * sum;
      }
      grad_y.swap(grad_a);
    }
  }

  // With a = ‖x‖²‖y‖², S = Σ x_i² y_i² and e = 1 for odd m, 2 for even m: {e(2s² + a − 2S)^k +
  // (m − e)(s² + a − S)^k + (m − e)(2s² − S)^k − (2m − e)s^{2k}}/m², for buckets and signs that are
  // independent four by four. The bound of the notes on custom kernels is false from k = 2 on.
  static std::optional<double> UnitMse(const Pair& pair, int degree, int64_t columns, int64_t,
                                       bool) {
    const auto m = static_cast<double>(columns);
    const double e = columns % 2 == 0 ? 2 : 1, a = pair.xx * pair.yy, square = pair.xy * pair.xy;
    return (e * std::pow(2 * square + a - 2 * pair.squares, degree) +
            (m - e) * std::pow(square + a - pair.squares, degree) +
            (m - e) * std::pow(2 * square - pair.squares, degree) -
            (2 * m - e) * std::pow(square, degree)) /
           (m * m);
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_POLY_SKETCH_H_
