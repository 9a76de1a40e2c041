// A short convolution of each column over neighbouring tokens:
//   y_t = Σ_i w_i ⊙ x_{t − i + ahead},  0 ≤ i < taps
// Tokens outside the sequence and padding do not exist: they add nothing.
#ifndef FAVOR_KERNELS_CONVOLUTION_H_
#define FAVOR_KERNELS_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/sequences.h"

namespace favor::kernels {

// Rows of arrays of tokens are contiguous, but may be apart.
struct ConvolutionArguments {
  ConstView x;  // [batch·length, columns]
  Sequences sequences;
  std::vector<ConstView> weights;  // [taps, some columns], side by side
  ConstView history{};             // [batch, any, columns], rows before those of each sequence
  int64_t ahead = 0;
  View y;  // [batch·length, columns]
};

struct ConvolutionGradients {
  ConstView x;
  Sequences sequences;
  std::vector<ConstView> weights;
  int64_t ahead = 0;
  ConstView grad_y;
  View grad_x;                     // must not overlap grad_y
  std::vector<View> grad_weights;  // added to; on a GPU f32
};

namespace cpu {  // the double instances of its loops are the reference
void Convolution(const ConvolutionArguments& a, const Context& context);
void ConvolutionBackward(const ConvolutionGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void Convolution(const ConvolutionArguments& a, const Context& context);
void ConvolutionBackward(const ConvolutionGradients& a, const Context& context);
}  // namespace cuda

inline void Convolution(const ConvolutionArguments& a, const Context& context) {
  Run<ConvolutionArguments>({.name = "convolution",
                             .reference = cpu::Convolution,
                             .cpu = cpu::Convolution,
                             .cuda = cuda::Convolution},
                            a.y, a, context);
}
inline void ConvolutionBackward(const ConvolutionGradients& a, const Context& context) {
  Run<ConvolutionGradients>({.name = "convolution",
                             .reference = cpu::ConvolutionBackward,
                             .cpu = cpu::ConvolutionBackward,
                             .cuda = cuda::ConvolutionBackward,
                             .describe = OfGradients},
                            a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_CONVOLUTION_H_
