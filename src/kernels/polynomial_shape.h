// What row maps are made of. Their kernels are polynomials of s = x·y, K = Σ_k c_k s^k, and each
// degree with a coefficient other than 0 has a block of columns of φ: monomials of x for a map that
// is exact, random features for others. Columns carry √|c_k|; those of a negative c_k change their
// sign for keys.
#ifndef FAVOR_KERNELS_POLYNOMIAL_SHAPE_H_
#define FAVOR_KERNELS_POLYNOMIAL_SHAPE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace favor::kernels {

constexpr int kMaxPolynomialDegree = 16;

struct PolynomialBlock {
  int degree;
  double coefficient;      // c_k, not 0
  int64_t first, columns;  // columns of φ
  int64_t table = -1;      // where its numbers begin in the table of a head; −1: monomials
};

// Monomials x_i·x_{i+s_1}·…·x_{i+s_(k−1)} of one pattern 0 ≤ s_1 ≤ … ≤ s_(k−1), i = 0, 1, …: each
// is a monomial of degree k − 1 times x_{i+shift}, shift = s_(k−1), and all of them occur in the
// expansion of s^k equally often. Vectors read and write such runs as they lie.
struct MonomialRun {
  int degree;
  int64_t shift, length;  // length = dim − shift
  int64_t at;             // place of the first one among all monomials, those of degree 1 at 0
  int64_t parent;         // the run of these monomials without their last factor; degree 1: −1
  int64_t column = -1;    // column of the first one; −1: the degree is not in the polynomial
  double weight = 0;      // √(c_k·number of times that it occurs), without the sign of c_k
};

// The same for every head.
struct PolynomialShape {
  int64_t dim = 0;  // of rows as the map reads them: rotated rows are padded to a power of two
  int64_t width = 0;
  int64_t table_size = 0;  // numbers that are drawn for a head
  int64_t rotation = -1;   // where the signs of a rotation begin among them, [dim]; −1: none
  std::vector<PolynomialBlock> blocks;
  std::vector<MonomialRun> runs;     // of blocks without a table, in order of degrees
  int64_t monomials = 0;             // of degrees 1 … n, if any is above 1
  std::vector<double> coefficients;  // c_0 … c_n
  // Of 2πk/n for k < n/2, n the largest sketch whose size is a power of two.
  std::vector<float> cosines, sines;

  bool IsRandom() const { return table_size > 0; }
  // Σ_k c_k s^k.
  double Kernel(double s) const;
};

// How random columns are numbered in a table, for a block of m columns of degree k and rows of dim
// elements.
enum class TableLayout : uint8_t {
  kNone,
  kIndices,  // [k, m]: column j is a product of x at k places
  kBuckets,  // [k, dim]: ±(b + 1): element i counts with that sign in bucket b < m
};

// All monomials.
PolynomialShape ExactShape(std::span<const double> coefficients, int64_t dim);
// Degrees 0 and 1 exactly; the others share `columns` random ones in proportion to |c_k|√(3^k − 1),
// the smallest variance for ‖x‖‖y‖ = 1 by the bound MSE ≤ (3^k − 1)(‖x‖‖y‖)^{2k}/m.
// With `rotate`, rows are first mixed by random signs and a Hadamard matrix over the next power of
// two of dim, which keeps s.
PolynomialShape RandomShape(std::span<const double> coefficients, int64_t dim, int64_t columns,
                            TableLayout layout, bool rotate);

// Columns that ExactShape needs, and the degrees that share random columns.
int64_t ExactWidth(std::span<const double> coefficients, int64_t dim);
int64_t RandomDegrees(std::span<const double> coefficients);

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_POLYNOMIAL_SHAPE_H_
