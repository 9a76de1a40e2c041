// Products by kernels of our own, for machines without cuBLASLt and for what it does not take: any
// shape and any strides, the same bits in every run.
#ifndef FAVOR_KERNELS_CUDA_MATMUL_TILES_H_
#define FAVOR_KERNELS_CUDA_MATMUL_TILES_H_

#include "favor/context.h"
#include "kernels/cuda/matmul/product.h"

namespace favor::kernels::cuda {

void MultiplyInTiles(const MatrixProduct& p, const Context& context);

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_MATMUL_TILES_H_
