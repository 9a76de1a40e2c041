// How many pairs of a key and a value a memory can hold: pairs are appended, then each key is asked
// again, and the answer is the row of a codebook with the largest dot product with the output.
#ifndef FAVOR_EXPERIMENTS_RECALL_H_
#define FAVOR_EXPERIMENTS_RECALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "favor/context.h"
#include "favor/features.h"
#include "favor/tensor.h"

namespace favor::experiments {

constexpr int64_t kCodebookRows = 256;  // an answer by chance is right once in so many times

// What keeps the pairs: an AttentionState with this map, or all keys and values.
struct Memory {
  std::string map;          // empty: exact attention, which keeps everything
  int64_t features = 0;     // m of a map with ω
  int64_t feature_dim = 0;  // dim that queries and keys are projected to; 0: they are not

  bool IsExact() const { return map.empty(); }
  FeaturePlan Plan(int64_t dim, uint64_t seed, uint64_t draw) const;  // unless it is exact
};

// Bytes of one head with keys and values of `dim` elements.
struct MemoryBytes {
  int64_t state = 0;   // what favor keeps: sums of linear attention are f64
  int64_t single = 0;  // S and z of linear attention, or keys and values, in f32
};
MemoryBytes BytesOf(const Memory& memory, int64_t dim, int64_t pairs);

// Random pairs, f32. The first pairs of a draw do not depend on how many are drawn.
struct Pairs {
  Tensor keys;                // [pairs, dim], of norm 1
  Tensor values;              // [pairs, dim], rows of the codebook
  Tensor codebook;            // [kCodebookRows, dim], of norm 1
  std::vector<int64_t> rows;  // which row of the codebook each value is
};
Pairs DrawPairs(int64_t pairs, int64_t dim, uint64_t seed, uint64_t draw);

// Rows [n, dim] projected to `feature_dim` random directions: each element of the matrix is normal
// with variance 1/feature_dim, so that norms are kept on average.
Tensor Project(const Tensor& rows, int64_t feature_dim, uint64_t seed, uint64_t draw);

// Answers that are right among the first `count` pairs, given outputs [count, dim].
int64_t CountRight(const Tensor& out, const Pairs& pairs);

struct RecallOptions {
  int64_t dim = 64;
  std::vector<int64_t> pairs;       // ascending
  std::vector<double> sharpnesses;  // β: queries and keys have norm β, scores are β² k·k'
  int64_t draws = 2;                // of pairs, ω and projection
};

struct RecallPoint {
  int64_t pairs = 0;
  // The β with the most right answers on draws that are not counted; of equal ones, the middle.
  double sharpness = 0;
  double accuracy = 0;        // mean share of right answers
  double standard_error = 0;  // of the mean, over draws
};

// One point for each number of pairs. The same numbers for any number of threads.
std::vector<RecallPoint> MeasureRecall(const Memory& memory, const RecallOptions& options,
                                       const Context& context);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_RECALL_H_
