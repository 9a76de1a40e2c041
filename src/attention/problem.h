// The arguments of an attention call, checked once: everything below may rely on them.
#ifndef FAVOR_ATTENTION_PROBLEM_H_
#define FAVOR_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "favor/attention.h"

namespace favor::attention {

struct AttentionKind;  // kinds.h

struct Problem {
  const AttentionKind& kind;
  ConstView q, k, v;  // [batch, heads or kv_heads, length, dim]
  int64_t batch, heads, kv_heads, query_length, key_length, dim, value_dim;
  bool causal;
  double scale;
  int64_t chunk;            // rows of a causal chunk
  std::vector<float> mask;  // [batch, kv_heads, key_length]; empty: all keys exist
  Shape output_shape;       // of the caller's rank

  int64_t Groups() const { return batch * heads; }  // pairs of batch and query head, head fastest
  int64_t Batch(int64_t group) const { return group / heads; }
  int64_t Head(int64_t group) const { return group % heads; }
  int64_t KvHead(int64_t group) const { return Head(group) / (heads / kv_heads); }
  ConstView Queries(int64_t group) const { return q.At(Batch(group)).At(Head(group)); }
  ConstView Keys(int64_t group) const { return k.At(Batch(group)).At(KvHead(group)); }
  ConstView Values(int64_t group) const { return v.At(Batch(group)).At(KvHead(group)); }
  const float* Mask(int64_t group) const {
    return mask.empty() ? nullptr
                        : mask.data() + (Batch(group) * kv_heads + KvHead(group)) * key_length;
  }
};

// Shapes and options; the numbers in the arrays are CheckRanges'.
Problem CheckProblem(ConstView q, ConstView k, ConstView v, const AttentionOptions& options);
void CheckRanges(const Problem& problem);

// Tells masks apart.
uint64_t HashOf(const std::vector<float>& mask);

// The mask as floats [batch, kv_heads, length] from [L], [B, L] or [B, H_kv, L]; empty for none.
std::vector<float> ExpandMask(const ConstView& mask, int64_t batch, int64_t kv_heads,
                              int64_t length);

// Throw where a row that exists holds NaN, infinity or numbers too large for the arithmetic; the
// mask as above, or empty.
void CheckQueryRange(const ConstView& q, double scale);
void CheckKeyRange(const ConstView& k, const std::vector<float>& mask, double scale);
void CheckValueRange(const ConstView& v, const std::vector<float>& mask,
                     std::string_view name = "v");

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_PROBLEM_H_
