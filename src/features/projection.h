// Ways to draw ω. Each file of features/projections/ defines one function `ProjectionEntry
// NameProjection()`; the list follows from the files.
#ifndef FAVOR_FEATURES_PROJECTION_H_
#define FAVOR_FEATURES_PROJECTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "favor/features.h"
#include "favor/random.h"
#include "kernels/omega.h"

namespace favor::features {

struct DrawRequest {
  int64_t features;  // m
  int64_t dim;       // d
  OmegaNorm norm;
  RandomStream stream;  // for this head and redraw: directions from child 0, lengths from child 1
};

struct ProjectionEntry {
  ProjectionInfo info;
  bool random = true;  // false: u = x, which softmax maps cannot use
  // The dimension of ω's rows before truncation to d; their length is χ or √ of it.
  int64_t (*omega_dim)(int64_t dim);
  // Σ b(b−1) over blocks of b rows of a Haar orthogonal matrix, 0 for independent rows; empty if
  // rows are coupled in another way, for which no variance formula is known.
  std::optional<double> (*haar_pairs)(int64_t features, int64_t dim);
  kernels::Omega (*draw)(const DrawRequest& request);
};

std::span<const ProjectionEntry> AllProjections();             // in order of their file names
const ProjectionEntry& FindProjection(std::string_view name);  // throws, naming the nearest

// Lengths of rows 0 … m−1 from stream.Child(1): √omega_dim, or the length of an independent
// Gaussian vector.
std::vector<double> RowLengths(const DrawRequest& request, int64_t omega_dim);

// A dense ω from row-major values, rounded to f32.
kernels::Omega DenseOmega(int64_t features, int64_t dim, const std::vector<double>& rows);

int64_t NextPowerOfTwo(int64_t dim);

// A structured ω: appends stages, then fills signs and angles of every block from
// stream.Child(0).Child(block). Each Hadamard stage stands for the orthogonal H/√n; the division
// goes into the row scales.
class StructuredBuilder {
 public:
  StructuredBuilder(const DrawRequest& request, int64_t padded_dim);

  StructuredBuilder& Signs();
  StructuredBuilder& Hadamard();
  // log2 n layers of n/2 rotations by uniform angles, strides 1, 2, 4, …
  StructuredBuilder& ButterflyRotations();
  kernels::Omega Build();  // rows scaled to their lengths

 private:
  const DrawRequest& request_;
  kernels::Omega omega_;
  int64_t parameters_ = 0;  // per block
  double scale_ = 1;
};

}  // namespace favor::features

#endif  // FAVOR_FEATURES_PROJECTION_H_
