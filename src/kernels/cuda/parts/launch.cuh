// What every launch of a kernel needs: the stream of its context, and errors as exceptions.
#ifndef FAVOR_KERNELS_CUDA_PARTS_LAUNCH_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <string>

#include "core/cuda_check.h"
#include "core/device_work.h"
#include "favor/error.h"

namespace favor::kernels::cuda {

// Throws if a call, or the launch before this, failed. Kernels run later: a failure inside one is
// reported by the next call that waits for the stream.
inline void Check(const char* operation, cudaError_t status = cudaGetLastError()) {
  CheckCuda(status, "cuda", operation);
}

// The stream of a context on a GPU, which becomes the current one of this thread.
inline cudaStream_t StreamOf(const Context& context) {
  return static_cast<cudaStream_t>(UseStream(context));
}

// The stream of the context. Throws unless `result` is f32: for kernels that write nothing else.
inline cudaStream_t StreamFor(const char* operation, const ConstView& result,
                              const Context& context) {
  if (result.type() != DataType::kF32) {
    throw Error(ErrorCode::kUnavailable, operation,
                "given " + std::string(Name(result.type())) + " arrays on " +
                    Name(result.device()) + ", expected f32");
  }
  return StreamOf(context);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_LAUNCH_CUH_
