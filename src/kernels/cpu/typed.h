// Memory-bound loops are written once for f32, the fast path, and f64, the reference.
#ifndef FAVOR_KERNELS_CPU_TYPED_H_
#define FAVOR_KERNELS_CPU_TYPED_H_

#include <cstdint>

#include "favor/tensor.h"

namespace favor::kernels::cpu {

// body(T{}) with T = double for f64, float for f32.
template <class Body>
void WithType(DataType type, const Body& body) {
  if (type == DataType::kF64) {
    body(double{});
  } else {
    body(float{});
  }
}

// Rows that one task works on, so that it touches about 64 KiB.
inline int64_t RowsOfTask(int64_t columns) {
  const int64_t rows = 16384 / (columns > 0 ? columns : 1);
  return rows > 0 ? rows : 1;
}

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_TYPED_H_
