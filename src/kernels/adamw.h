// One step of AdamW (Loshchilov and Hutter 2019) for all parameters: Adam with weight decay
// decoupled from the gradient g, which is scaled down to the norm `clip` if it is longer.
//   m ← β₁m + (1 − β₁)g    v ← β₂v + (1 − β₂)g²
//   w ← w − rate·(m̂/(√v̂ + ε) + decay·w),  m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ)
#ifndef FAVOR_KERNELS_ADAMW_H_
#define FAVOR_KERNELS_ADAMW_H_

#include <cstdint>

#include "core/tally.h"
#include "kernels/backend.h"
#include "kernels/segment.h"

namespace favor::kernels {

struct AdamWArguments {
  double beta1, beta2, epsilon, weight_decay;
  int64_t step;  // t ≥ 1
  double rate;
  double clip = 0;  // the largest norm of the gradient; 0: none
  // What the passes of this step found, in memory of the device. Nothing is written if the loss or
  // the squared norm of the first entry is not finite, or if any entry counts unusable rows.
  const TallyEntry* tally;
  int64_t entries = 1;
  Segments segments;
  ConstView gradients;         // [elements]
  View values, first, second;  // [elements]: w, m, v
};

namespace cpu {  // the double instance of its loop is the reference
void AdamW(const AdamWArguments& a, const Context& context);
}
namespace cuda {
void AdamW(const AdamWArguments& a, const Context& context);
}  // namespace cuda

inline void AdamW(const AdamWArguments& a, const Context& context) {
  Run<AdamWArguments>(
      {.name = "AdamW", .reference = cpu::AdamW, .cpu = cpu::AdamW, .cuda = cuda::AdamW}, a.values,
      a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ADAMW_H_
