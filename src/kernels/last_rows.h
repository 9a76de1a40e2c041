// The last rows of sequences that grow: what a short convolution still reaches.
#ifndef FAVOR_KERNELS_LAST_ROWS_H_
#define FAVOR_KERNELS_LAST_ROWS_H_

#include "kernels/backend.h"

namespace favor::kernels {

// Rows join those that are kept; the last ones stay, where they are expected next time.
struct KeepLastRowsArguments {
  ConstView rows;  // [batch·length, columns]; rows are contiguous, but may be apart
  View kept;       // [batch, most, columns], contiguous, of the same type
};

namespace cpu {  // arrays of any type
void KeepLastRows(const KeepLastRowsArguments& a, const Context& context);
}
namespace cuda {
void KeepLastRows(const KeepLastRowsArguments& a, const Context& context);
}

inline void KeepLastRows(const KeepLastRowsArguments& a, const Context& context) {
  Run<KeepLastRowsArguments>({.name = "last rows",
                              .reference = cpu::KeepLastRows,
                              .cpu = cpu::KeepLastRows,
                              .cuda = cuda::KeepLastRows},
                             a.kept, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LAST_ROWS_H_
