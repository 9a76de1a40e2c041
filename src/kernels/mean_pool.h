// The mean of the rows of each sequence, weighted by the mask: padding does not exist. A sequence
// that is all padding gives 0.
#ifndef FAVOR_KERNELS_MEAN_POOL_H_
#define FAVOR_KERNELS_MEAN_POOL_H_

#include "kernels/backend.h"
#include "kernels/sequences.h"

namespace favor::kernels {

struct MeanPoolArguments {
  ConstView x;  // [batch·length, width]
  Sequences sequences;
  View y;  // [batch, width]
};

struct MeanPoolGradients {
  ConstView grad_y;  // [batch, width]
  Sequences sequences;
  View grad_x;  // [batch·length, width]
};

namespace cpu {  // the double instances of its loops are the reference
void MeanPool(const MeanPoolArguments& a, const Context& context);
void MeanPoolBackward(const MeanPoolGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void MeanPool(const MeanPoolArguments& a, const Context& context);
void MeanPoolBackward(const MeanPoolGradients& a, const Context& context);
}  // namespace cuda

inline void MeanPool(const MeanPoolArguments& a, const Context& context) {
  Run<MeanPoolArguments>({.name = "mean pool",
                          .reference = cpu::MeanPool,
                          .cpu = cpu::MeanPool,
                          .cuda = cuda::MeanPool},
                         a.y, a, context);
}
inline void MeanPoolBackward(const MeanPoolGradients& a, const Context& context) {
  Run<MeanPoolGradients>({.name = "mean pool",
                          .reference = cpu::MeanPoolBackward,
                          .cpu = cpu::MeanPoolBackward,
                          .cuda = cuda::MeanPoolBackward,
                          .describe = OfGradients},
                         a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MEAN_POOL_H_
