// The loss −w[target]·log softmax(logits)[target] and its gradient.
#ifndef FAVOR_KERNELS_CROSS_ENTROPY_H_
#define FAVOR_KERNELS_CROSS_ENTROPY_H_

#include <cstdint>

#include "core/tally.h"
#include "kernels/backend.h"

namespace favor::kernels {

struct CrossEntropyArguments {
  const int32_t* targets;  // [rows], in memory of the device, each in [0, classes)
  // w: [classes], each above 0, in memory of the device; null: all are 1.
  const float* weights = nullptr;
  double grad_scale = 0;  // ≠ 0: logits are replaced by grad_scale·w[target]·(softmax − one-hot)
  View logits;            // [rows, classes]
  TallyEntry* tally;      // adds to loss, correct and targets
  double* losses = nullptr;  // [rows], in memory of the device: the loss of each; may be null
};

namespace cpu {  // the double instance of its loop is the reference
void CrossEntropy(const CrossEntropyArguments& a, const Context& context);
}
namespace cuda {
void CrossEntropy(const CrossEntropyArguments& a, const Context& context);
}  // namespace cuda

inline void CrossEntropy(const CrossEntropyArguments& a, const Context& context) {
  Run<CrossEntropyArguments>({.name = "cross entropy",
                              .reference = cpu::CrossEntropy,
                              .cpu = cpu::CrossEntropy,
                              .cuda = cuda::CrossEntropy},
                             a.logits, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_CROSS_ENTROPY_H_
