// y = (x − mean)/√(variance + ε)·gain + bias, over each row.
#ifndef FAVOR_KERNELS_LAYER_NORM_H_
#define FAVOR_KERNELS_LAYER_NORM_H_

#include "kernels/backend.h"

namespace favor::kernels {

struct LayerNormArguments {
  ConstView x;           // [rows, width]
  ConstView gain, bias;  // [width]
  double epsilon;
  bool again = false;  // compute y again from given statistics
  View statistics;     // [rows, 2]: each row's mean and 1/√(variance + ε); on a GPU f32
  View y;              // [rows, width]
};

struct LayerNormGradients {
  ConstView x, gain, statistics;
  ConstView grad_y;           // [rows, width]
  bool add = false;           // add to grad_x; if false, grad_y and grad_x may be the same
  View grad_x;                // [rows, width]
  View grad_gain, grad_bias;  // [width], added to; on a GPU f32
};

namespace cpu {  // the double instances of its loops are the reference
void LayerNorm(const LayerNormArguments& a, const Context& context);
void LayerNormBackward(const LayerNormGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void LayerNorm(const LayerNormArguments& a, const Context& context);
void LayerNormBackward(const LayerNormGradients& a, const Context& context);
}  // namespace cuda

inline void LayerNorm(const LayerNormArguments& a, const Context& context) {
  Run<LayerNormArguments>({.name = "layer norm",
                           .reference = cpu::LayerNorm,
                           .cpu = cpu::LayerNorm,
                           .cuda = cuda::LayerNorm},
                          a.y, a, context);
}
inline void LayerNormBackward(const LayerNormGradients& a, const Context& context) {
  Run<LayerNormGradients>({.name = "layer norm",
                           .reference = cpu::LayerNormBackward,
                           .cpu = cpu::LayerNormBackward,
                           .cuda = cuda::LayerNormBackward,
                           .describe = OfGradients},
                          a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LAYER_NORM_H_
