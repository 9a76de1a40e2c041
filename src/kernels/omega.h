// The drawn ω of one head: a dense matrix, or a product of sparse orthogonal factors that is never
// written out. What favor draws is rounded to f32 once, so that every backend works with the same
// numbers.
#ifndef FAVOR_KERNELS_OMEGA_H_
#define FAVOR_KERNELS_OMEGA_H_

#include <cstdint>
#include <vector>

namespace favor::kernels {

// One factor of a structured block, acting on a vector of `padded_dim` elements.
struct OmegaStage {
  enum class Factor {
    kSigns,     // y_i ← ±y_i: padded_dim parameters ±1
    kHadamard,  // y ← H y, H_ij = (−1)^{popcount(i & j)}: no parameters; padded_dim is a power of
                // two
    kRotations,  // Givens rotations of all pairs (i, i + stride) with bit `stride` of i clear, in
                 // order of i: padded_dim/2 pairs (cos, sin): y_i ← cos·y_i − sin·y_j, y_j ←
                 // sin·y_i + cos·y_j
  };
  Factor factor;
  int64_t stride = 0;
  int64_t first_parameter = 0;  // where its parameters begin among those of a block
};

// Row r of block b is row b·padded_dim + r of ω: row_scale · (last stage ⋯ first stage), of which
// only the first `features` rows and `dim` columns are used (x is padded with zeros).
struct Omega {
  int64_t features = 0;  // m
  int64_t dim = 0;       // d
  int64_t padded_dim = 0;

  std::vector<double> dense;  // [m, d]; empty for a structured ω

  std::vector<OmegaStage> stages;  // the same for every block; empty: the identity
  std::vector<std::vector<float>> block_parameters;
  std::vector<float> row_scale;  // [m]

  bool IsDense() const { return !dense.empty(); }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_OMEGA_H_
