// Rows with one more column, scaled: y = scale·[x, last + offset]. A bias becomes a weight of an
// input that is always the same.
#ifndef FAVOR_KERNELS_APPEND_COLUMN_H_
#define FAVOR_KERNELS_APPEND_COLUMN_H_

#include "kernels/backend.h"

namespace favor::kernels {

struct AppendColumnArguments {
  ConstView x;       // [rows, dim]
  ConstView last{};  // [rows]; empty: 0
  double offset = 0, scale = 1;
  View y;  // [rows, dim + 1]
};

struct AppendColumnGradients {
  ConstView grad_y;  // [rows, dim + 1]
  double scale = 1;
  bool add = false;  // to what is in grad_x
  View grad_x;       // [rows, dim]; on a GPU f32 or of the type of grad_y
  View grad_last{};  // [rows], added to; on a GPU f32; empty: not computed
};

namespace cpu {  // the double instances of its loops are the reference
void AppendColumn(const AppendColumnArguments& a, const Context& context);
void AppendColumnBackward(const AppendColumnGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void AppendColumn(const AppendColumnArguments& a, const Context& context);
void AppendColumnBackward(const AppendColumnGradients& a, const Context& context);
}  // namespace cuda

inline void AppendColumn(const AppendColumnArguments& a, const Context& context) {
  Run<AppendColumnArguments>({.name = "append column",
                              .reference = cpu::AppendColumn,
                              .cpu = cpu::AppendColumn,
                              .cuda = cuda::AppendColumn},
                             a.y, a, context);
}
inline void AppendColumnBackward(const AppendColumnGradients& a, const Context& context) {
  Run<AppendColumnGradients>({.name = "append column",
                              .reference = cpu::AppendColumnBackward,
                              .cpu = cpu::AppendColumnBackward,
                              .cuda = cuda::AppendColumnBackward,
                              .describe = OfGradients},
                             a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_APPEND_COLUMN_H_
