// Every row times a factor of its own: y_i = factor_i·x_i.
#ifndef FAVOR_KERNELS_SCALE_ROWS_H_
#define FAVOR_KERNELS_SCALE_ROWS_H_

#include "kernels/backend.h"

namespace favor::kernels {

struct ScaleRowsArguments {
  ConstView x;        // [rows, columns]
  ConstView factors;  // [rows]
  View y;             // [rows, columns]
};

struct ScaleRowsGradients {
  ConstView x, factors;
  ConstView grad_y;     // [rows, columns]
  View grad_x;          // [rows, columns]; may be grad_y
  View grad_factors{};  // [rows], added to; on a GPU f32; empty: not computed
};

namespace cpu {  // the double instances of its loops are the reference
void ScaleRows(const ScaleRowsArguments& a, const Context& context);
void ScaleRowsBackward(const ScaleRowsGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void ScaleRows(const ScaleRowsArguments& a, const Context& context);
void ScaleRowsBackward(const ScaleRowsGradients& a, const Context& context);
}  // namespace cuda

inline void ScaleRows(const ScaleRowsArguments& a, const Context& context) {
  Run<ScaleRowsArguments>({.name = "scale rows",
                           .reference = cpu::ScaleRows,
                           .cpu = cpu::ScaleRows,
                           .cuda = cuda::ScaleRows},
                          a.y, a, context);
}
inline void ScaleRowsBackward(const ScaleRowsGradients& a, const Context& context) {
  Run<ScaleRowsGradients>({.name = "scale rows",
                           .reference = cpu::ScaleRowsBackward,
                           .cpu = cpu::ScaleRowsBackward,
                           .cuda = cuda::ScaleRowsBackward,
                           .describe = OfGradients},
                          a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_SCALE_ROWS_H_
