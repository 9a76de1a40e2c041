// A product of matrices as the engines of a GPU take it: cuBLASLt (library.h) or kernels of our own
// (few_rows.h, tiles.h).
#ifndef FAVOR_KERNELS_CUDA_MATMUL_PRODUCT_H_
#define FAVOR_KERNELS_CUDA_MATMUL_PRODUCT_H_

#include <cstdint>

#include "favor/tensor.h"

namespace favor::kernels::cuda {

// c = a·b + bias + addend.
struct MatrixProduct {
  struct Matrix {
    const void* data;
    int64_t row, column;  // strides in elements
  };

  int64_t rows, columns, depth;  // rows and columns are not 0
  DataType type;                 // of a, b and the bias: f32 or bf16
  DataType result_type;          // the same, or f32
  Matrix a, b;                   // [rows, depth] and [depth, columns]
  const void* bias;              // [columns], null: none
  const void* addend;            // like c, in its type, may be c; null: none
  void* c;                       // [rows, columns], rows are contiguous
  int64_t c_row;                 // stride of its rows
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_MATMUL_PRODUCT_H_
