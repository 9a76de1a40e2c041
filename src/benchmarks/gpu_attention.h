// Times of attention on a GPU: kernels alone, as a graph that is started again without the host.
#ifndef FAVOR_BENCHMARKS_GPU_ATTENTION_H_
#define FAVOR_BENCHMARKS_GPU_ATTENTION_H_

#include <cstdint>
#include <string>

#include "benchmarks/attention.h"
#include "favor/attention.h"

namespace favor::benchmarks {

// Arrays of one length on the context's GPU.
class GpuAttention {
 public:
  GpuAttention(const AttentionBenchOptions& options, int64_t length, const Context& context);

  // Of a call, or of a call with its gradients.
  struct Cost {
    double seconds;       // the median
    int64_t extra_bytes;  // beyond the arrays
  };
  // Throws kInvalidData if results are not finite.
  Cost CostOf(const AttentionOptions& options, int64_t rounds);

 private:
  const Context& context_;
  bool backward_;
  Tensor q_, k_, v_, out_, grad_out_, grad_q_, grad_k_, grad_v_;
};

// Bytes that a copy of a large array reads and writes per second, the best that memory can do.
double GpuCopyRate(int64_t rounds, const Context& context);

int64_t GpuSamples(int64_t rounds);  // times of which the median is taken

// "NVIDIA H200, a copy moves 4.21 TB/s in this run."
std::string CopyText(const std::string& gpu, double copy_rate);

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_GPU_ATTENTION_H_
