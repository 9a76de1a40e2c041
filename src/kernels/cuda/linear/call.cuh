// A call of linear attention as the general kernels see it, and its steps: any map, any size, in
// f32 on CUDA cores. Faster kernels for common shapes replace single steps.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_CALL_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_CALL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/linear/segments.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/linear_attention_backward.h"

namespace favor::kernels::cuda::general {

constexpr int64_t kMostColumns = kMostGpuColumns, kMostWidth = kMostGpuWidth;

// An array [batch, heads, length, columns] of any type, strides in elements.
struct Array {
  void* data = nullptr;
  DataType type = DataType::kF32;
  int64_t batch = 0, head = 0, row = 0, column = 0;

  __device__ double Load(int64_t at) const {
    switch (type) {
      case DataType::kF32:
        return static_cast<const float*>(data)[at];
      case DataType::kF64:
        return static_cast<const double*>(data)[at];
      case DataType::kF16:
        return __half2float(static_cast<const __half*>(data)[at]);
      case DataType::kBF16:
        return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    }
    return 0;
  }
  // Returns what an element of the type can hold of `value`.
  __device__ double Store(int64_t at, double value) const {
    switch (type) {
      case DataType::kF32:
        static_cast<float*>(data)[at] = static_cast<float>(value);
        break;
      case DataType::kF64:
        static_cast<double*>(data)[at] = value;
        break;
      case DataType::kF16:
        static_cast<__half*>(data)[at] = __double2half(value);
        break;
      case DataType::kBF16:
        static_cast<__nv_bfloat16*>(data)[at] = __double2bfloat16(value);
        break;
    }
    return Load(at);
  }
  __device__ int64_t At(int64_t batch_entry, int64_t of_head, int64_t of_row) const {
    return batch_entry * batch + of_head * head + of_row * row;
  }
};

// The axes of an array of rank 3 are batch, heads and length.
inline Array ArrayOf(const ConstView& view) {
  if (view.empty()) return {};
  return {.data = const_cast<void*>(static_cast<const void*>(view.data())),
          .type = view.type(),
          .batch = view.stride(0),
          .head = view.stride(1),
          .row = view.shape().rank() > 2 ? view.stride(2) : 0,
          .column = view.shape().rank() > 3 ? view.stride(3) : 0};
}
// [groups, ..], a group for each batch entry and head.
inline Array ArrayOfGroups(const ConstView& view, int64_t heads) {
  if (view.empty()) return {};
  return {.data = const_cast<void*>(static_cast<const void*>(view.data())),
          .type = view.type(),
          .batch = view.stride(0) * heads,
          .head = view.stride(0),
          .row = view.shape().rank() > 1 ? view.stride(1) : 0,
          .column = view.shape().rank() > 2 ? view.stride(2) : 0};
}

// The map and the constants of its heads; group g has entry g mod heads, or 0 if there is only one.
struct MapConstants {
  int map;  // MapEntry::index
  int dim, features, omega_rows, width;
  int first_column = 0;  // of all columns of a row map, those from here on
  int64_t entries;
  bool is_row_map, is_linear, is_masked, is_flat, is_nonnegative, has_factor;  // MapEntry
  const float *omega, *offset, *argument_scale, *log_normalizer, *squared_norm, *mask_weight;
  float epsilon;
  double norm_slope;
  double plain_log_normalizer;  // without A
  RowMapTables tables;
};

// One turn of a call: the query heads of a turn share no keys. Index i of a turn is the group
// i·turns + turn.
struct Call {
  Array q, k, v, mask, log_decay, key_mean, oprf_a;
  Array out, log_sum, grad_out, delta;
  Array log_scale, numerator, denominator;  // SumParts
  Array grad_q, grad_k, grad_v, grad_log_decay;
  MapConstants map;
  int64_t heads, sharing;  // query heads, and how many of them share keys
  int64_t groups, turns, turn;
  int64_t query_length, key_length;
  int dim, value_dim;
  double scale, sqrt_scale;
  double least_denominator;
  bool normalize, add_to_queries, add_to_keys;
  TallyEntry* tally;

  __device__ int64_t Group(int64_t index) const { return index * turns + turn; }
};

// Where the place of a row in a group is.
struct Head {
  int64_t batch, head, kv_head, group;

  __device__ Head(const Call& a, int64_t index) : group(a.Group(index)) {
    if (group <= UINT32_MAX) {  // divisions of 64 bits take several times as long
      const auto g = static_cast<uint32_t>(group), heads = static_cast<uint32_t>(a.heads);
      batch = g / heads;
      head = g % heads;
      kv_head = static_cast<uint32_t>(head) / static_cast<uint32_t>(a.sharing);
    } else {
      batch = group / a.heads;
      head = group % a.heads;
      kv_head = head / a.sharing;
    }
  }
};

// Adds counts of rows to the tally: sums of integers do not depend on their order.
__device__ inline void AddToTally(int64_t* to, int count) {
  if (count > 0) atomicAdd(reinterpret_cast<unsigned long long*>(to), count);
}

// States of whole groups, f64 (PrefixStates).
struct GroupStates {
  double* tokens = nullptr;
  double *c = nullptr, *z = nullptr, *s = nullptr, *log_decay = nullptr;
};
GroupStates PointersOf(const PrefixStates& states);

// Throws if the kernels cannot do the call.
void Refuse(const AttentionProblem& problem, const FeatureConstants& constants);
Call MakeCall(const AttentionProblem& problem, const LinearHeads& heads, TallyEntry* tally,
              const Context& context);
Call CallOf(const LinearArguments& a, const Context& context);
Call CallOf(const LinearGradients& a, int64_t turn, const Context& context);

// Which rows make a state: keys with values v, or queries with values dO and exponents relative to
// log_sum, whose states are the adjoint and move from the end to the beginning.
enum class Side : uint8_t { kKeys, kQueries };

// The steps of a call. `only`: [groups, segments], 0 where a segment is not to be done; null: all.

// States of the rows of each segment, from zero.
void SegmentStatesOf(const Call& a, Side side, bool causal, const Cut& cut,
                     const SegmentStates& states, const Context& context);

// What becomes of the states of segments.
enum class Scan : uint8_t {
  kBefore,  // the state of all segments before each
  kBehind,  // the state of all segments behind each
  kTotal,   // the state of all segments, in the place of the first
};
// Merges states in order, in double. `begin`, if given, comes before all of them; their end is left
// in `end`, if given and if the tally counts nothing unusable.
void ScanStates(const Call& a, Scan scan, int64_t segments, const SegmentStates& states,
                const GroupStates& begin, const GroupStates& end, const Context& context);
// The keys that exist are added to `tokens`, unless the tally counts something unusable.
void CountTokens(const Call& a, double* tokens, const Context& context);

// Output rows. Causal: each segment begins with its state. Otherwise all read the first state of
// their group, which are `state_stride` segments apart.
void Output(const Call& a, bool causal, const Cut& cut, int64_t state_stride,
            const SegmentStates& states, const int* only, const Context& context);

// Gradients of the rows of one side, which read the states of the other. Where `log_weights` is
// given ([groups, length]), gradients of a number added to all exponents of a row are left there.
void Gradients(const Call& a, Side side, bool causal, const Cut& cut, int64_t state_stride,
               const SegmentStates& states, float* log_weights, const int* only,
               const Context& context);

// Gradients of ℓ from those of both sides' exponents and the states at the ends of segments.
void DecayGradients(const Call& a, const Cut& cut, const SegmentStates& keys,
                    const SegmentStates& queries, const float* of_queries, const float* of_keys,
                    const Context& context);

// What centring keys adds to the gradients (centring_gradients.h).
void CentringGradients(const LinearGradients& a, const Context& context);

// A few rows that change or read states in double as they are, in one launch. CausalFew checks the
// inputs if the arguments say so, and changes nothing if some are unusable.
constexpr int64_t kFewRows = 4;
void AppendFew(const Call& a, const GroupStates& states, const Context& context);
void ReadFew(const Call& a, const GroupStates& states, const Context& context);
void CausalFew(const LinearArguments& arguments, const Call& a, const GroupStates& states,
               const Context& context);

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_CALL_CUH_
