// Products by cuBLASLt, if the machine has it (core/shared_library.h).
#ifndef FAVOR_KERNELS_CUDA_MATMUL_LIBRARY_H_
#define FAVOR_KERNELS_CUDA_MATMUL_LIBRARY_H_

#include <atomic>
#include <cstdint>

#include "favor/context.h"
#include "kernels/cuda/matmul/product.h"

namespace favor::kernels::cuda {

// Queues the product. False if cuBLASLt is not there or does not take it: nothing is queued then.
bool MultiplyByLibrary(const MatrixProduct& p, const Context& context);

namespace matmul_library {

// For tests: whether cuBLASLt may be used, and how many products it has taken.
inline std::atomic<bool> library_is_used{true};
inline std::atomic<int64_t> products_by_library{0};

}  // namespace matmul_library
}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_MATMUL_LIBRARY_H_
