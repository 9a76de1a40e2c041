// Picking some rows of a matrix (those that have a target), and putting them back.
#ifndef FAVOR_KERNELS_ROWS_H_
#define FAVOR_KERNELS_ROWS_H_

#include <cstdint>

#include "kernels/backend.h"

namespace favor::kernels {

// to[i] = from[places[i]]
struct GatherArguments {
  ConstView from;         // [rows, columns]
  const int64_t* places;  // [some], in memory of the device
  View to;                // [some, columns], same type
};

// to[places[i]] = from[i]; places differ, and the other rows of `to` stay as they are.
struct ScatterArguments {
  ConstView from;         // [some, columns]
  const int64_t* places;  // [some], in memory of the device
  View to;                // [rows, columns], same type
};

namespace cpu {  // copies of bytes, of any type
void GatherRows(const GatherArguments& a, const Context& context);
void ScatterRows(const ScatterArguments& a, const Context& context);
}  // namespace cpu
namespace cuda {
void GatherRows(const GatherArguments& a, const Context& context);
void ScatterRows(const ScatterArguments& a, const Context& context);
}  // namespace cuda

inline void GatherRows(const GatherArguments& a, const Context& context) {
  Run<GatherArguments>({.name = "gather",
                        .reference = cpu::GatherRows,
                        .cpu = cpu::GatherRows,
                        .cuda = cuda::GatherRows},
                       a.to, a, context);
}
inline void ScatterRows(const ScatterArguments& a, const Context& context) {
  Run<ScatterArguments>({.name = "scatter",
                         .reference = cpu::ScatterRows,
                         .cpu = cpu::ScatterRows,
                         .cuda = cuda::ScatterRows},
                        a.to, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ROWS_H_
