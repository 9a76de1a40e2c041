// Softmax attention of one head: O_i = Σ_j e^{s_ij} v_j / Σ_j e^{s_ij}, s_ij = scale·q_i·k_j, over
// existing keys (and j ≤ i when causal). Keys stream past in blocks with a running maximum: O(L·d)
// memory, never an L×L array.
#ifndef FAVOR_KERNELS_EXACT_ATTENTION_H_
#define FAVOR_KERNELS_EXACT_ATTENTION_H_

#include <cstdint>

#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/linear_attention.h"

namespace favor::kernels {

struct ExactRows {
  ConstView queries, keys, values;  // [length, dim or value_dim], any type
  const float* mask = nullptr;      // [key length]
  double scale = 1;
  bool causal = false;  // query i sees keys 0 … before + i
  int64_t before = 0;   // keys that come before the first query
};

namespace reference {
RowCounts Exact(const ExactRows& rows, int64_t begin, int64_t end, const OutputRows& out);
}
namespace cpu {
RowCounts Exact(const ExactRows& rows, int64_t begin, int64_t end, const Context& context,
                const OutputRows& out);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_EXACT_ATTENTION_H_
