// f64 arrays are the reference, f32 arrays the fast path; loops that memory bounds are written once
// for both.
#ifndef FAVOR_LAYERS_DISPATCH_H_
#define FAVOR_LAYERS_DISPATCH_H_

#include "favor/tensor.h"

namespace favor::layers {

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

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_DISPATCH_H_
