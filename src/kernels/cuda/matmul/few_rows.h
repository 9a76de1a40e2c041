// Products of few rows, as of one token: they take as long as reading B, so each warp reads a
// column of B once for all rows and nothing waits for tiles to fill.
#ifndef FAVOR_KERNELS_CUDA_MATMUL_FEW_ROWS_H_
#define FAVOR_KERNELS_CUDA_MATMUL_FEW_ROWS_H_

#include "favor/context.h"
#include "kernels/activation.h"
#include "kernels/cuda/matmul/product.h"

namespace favor::kernels::cuda {

constexpr int kMostFewRows = 8;

// Queues the product and, unless it is null, what follows it. False if there are more rows, rows of
// A or columns of B are not packets of 16 bytes, or the types of `then` are others: nothing is
// queued then. Rows are summed in an order that depends neither on their number nor on the GPU.
bool MultiplyFewRows(const MatrixProduct& p, const ActivationArguments* then,
                     const Context& context);

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_MATMUL_FEW_ROWS_H_
