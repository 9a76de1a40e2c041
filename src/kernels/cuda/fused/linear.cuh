// Linear attention on tensor cores, for bf16 rows of up to 64 columns and up to 256 features, or of
// up to 128 columns and 128 features, of a map with an exponent linear in u, or of a flat one:
// features live in registers and shared memory only. Each function is one step of a call
// (cuda/linear_attention.cu), and does the same as the general kernel of that step. A segment in
// which a row loses its digits (a denominator vanishes because a later key of its chunk has all the
// weight), has no key, or is not finite is flagged, and done again by the general kernel, which
// also counts such rows: these kernels count nothing.
//
// With features as rows and keys as columns, the state of a set of keys is what flash attention
// computes for the queries ω: a running maximum per row, exponentials, a product with the values.
// Reading it is flash attention again, of queries to the keys ω with the values S.
#ifndef FAVOR_KERNELS_CUDA_FUSED_LINEAR_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_LINEAR_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace favor::kernels::cuda::fused {

// Rows of q, k, v or a gradient, [batch, heads, length, columns]: bf16, or f32 if they are written.
// Strides in elements; columns are contiguous.
struct Rows {
  void* data;
  int64_t batch, head, row;
  bool f32 = false;
};

enum class Function : uint8_t { kExponential, kRelu };

// A call; what a step does not need stays empty.
struct Call {
  Rows q, k, v, out, grad_out, grad_q, grad_k, grad_v;
  const float* mask;  // [batch, kv_heads, key_length] with strides, or null
  int64_t mask_batch, mask_head, mask_row;
  int heads, kv_heads, groups;  // groups = batch · heads
  int64_t query_length, key_length;
  int dim, value_dim, features;  // dim and value_dim: multiples of 8
  // Constants of heads; group g has entry g mod heads, or 0 if there is only one.
  const float *omega, *offset, *argument_scale, *log_normalizer;
  int entries;
  Function function;
  float norm_slope, sqrt_scale, epsilon;
  float most_square;  // a row of q or k with a larger ‖x‖² may be unusable: its segment is flagged
  // The cut: segments of `segment_rows` (a multiple of 64) rows, and a state for each
  // (linear/segments.cuh). Bidirectional reads take one state per group, `state_stride` segments
  // apart.
  int64_t segments, segment_rows, state_stride;
  float *c, *z, *s;
  // Forgetting, in causal calls: the sums of ℓ from the first row of each chunk of 64 up to every
  // row, to base 2, [groups, key_length]; null: nothing is forgotten.
  const float* decay;
  float* log_decay;  // [groups, segments], Λ of segments: 0, written by whoever makes states, if
                     // nothing is forgotten
  // [groups, key_length], gradients of a number added to all exponents of a key; null: not wanted.
  float* log_weights;
  float* log_sum;      // [groups, query_length]; null: not wanted
  const float* delta;  // [groups, query_length]
  int* flags;          // [groups, segments]
};

// Whether this GPU has the shared memory that the kernels need.
bool Fits(int device);

// States of the keys of each segment, from zero.
void KeyStates(const Call& a, cudaStream_t stream);
// States of the adjoint of each segment: of queries, with values dO and δ.
void AdjointStates(const Call& a, cudaStream_t stream);

// Output passes. Causal ones begin each segment with its state: of the keys before it, or of the
// queries behind it. Bidirectional ones read one state per group; segments are only what is
// flagged.
void CausalOutput(const Call& a, cudaStream_t stream);
void CausalQueryGradients(const Call& a, cudaStream_t stream);
void CausalKeyGradients(const Call& a, cudaStream_t stream);
void Output(const Call& a, cudaStream_t stream);
void QueryGradients(const Call& a, cudaStream_t stream);
void KeyGradients(const Call& a, cudaStream_t stream);

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_LINEAR_CUH_
