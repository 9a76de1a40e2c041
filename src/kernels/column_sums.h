// sums += the sum of rows: the gradient of a bias.
#ifndef FAVOR_KERNELS_COLUMN_SUMS_H_
#define FAVOR_KERNELS_COLUMN_SUMS_H_

#include "kernels/backend.h"

namespace favor::kernels {

struct ColumnSumsArguments {
  ConstView rows;  // [rows, columns]
  View sums;       // [columns], added to; on a GPU f32 or of the type of rows
};

namespace cpu {  // the double instance of its loop is the reference
void AddColumnSums(const ColumnSumsArguments& a, const Context& context);
}
namespace cuda {
void AddColumnSums(const ColumnSumsArguments& a, const Context& context);
}

inline void AddColumnSums(const ColumnSumsArguments& a, const Context& context) {
  Run<ColumnSumsArguments>({.name = "column sums",
                            .reference = cpu::AddColumnSums,
                            .cpu = cpu::AddColumnSums,
                            .cuda = cuda::AddColumnSums},
                           a.sums, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_COLUMN_SUMS_H_
