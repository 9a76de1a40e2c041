// One attention call as backends see it: the arrays of all batches and heads, and what to compute.
// Each backend cuts it into pieces of work in its own way.
#ifndef FAVOR_KERNELS_ATTENTION_PROBLEM_H_
#define FAVOR_KERNELS_ATTENTION_PROBLEM_H_

#include <cstdint>

#include "core/tally.h"
#include "favor/tensor.h"

namespace favor::kernels {

// Bound of values and gradients: sums over millions of keys stay within float.
constexpr double kLargestValue = 1e30;
// Bound of scale·‖x‖²: up to here differences of exponents, kept in double, still mean something.
// Beyond it, attention has one key only.
constexpr double kLargestNorm = 1e15;
constexpr int64_t kDefaultChunk = 60;  // rows of a causal chunk

// Checked by whoever makes it (attention/call.cc); everything below relies on it.
struct AttentionProblem {
  ConstView q;     // [batch, heads, query_length, dim], any type
  ConstView k;     // [batch, kv_heads, key_length, dim]
  ConstView v;     // [batch, kv_heads, key_length, value_dim]
  ConstView mask;  // f32 [batch, kv_heads, key_length], 0: the key does not exist; none: all do
  // Forgetting, in causal linear attention: f64 [batch, heads, key_length], ≤ 0. Key j counts
  // e^{ℓ_{j+1} + … + ℓ_i} times for query i; none: nothing is forgotten. ℓ of keys that do not
  // exist counts as 0.
  ConstView log_decay;
  int64_t batch, heads, kv_heads, query_length, key_length, dim, value_dim;
  bool causal = false;    // query i sees keys 0 … before + i
  int64_t before = 0;     // keys that come before the first query: query i stands at key before + i
  int64_t window = -1;    // ≥ 0: a query sees keys at most that far from its own place
  bool beyond = false;    // linear attention: it sees those that are farther instead
  double scale = 1;       // factor of q·k
  bool normalize = true;  // false: sums without the division
  int64_t chunk = kDefaultChunk;

  // A group is a batch entry and a query head, head fastest.
  int64_t Groups() const { return batch * heads; }
  int64_t Batch(int64_t group) const { return group / heads; }
  int64_t Head(int64_t group) const { return group % heads; }
  int64_t KvHead(int64_t group) const { return Head(group) / (heads / kv_heads); }
  template <class AnyView>
  AnyView OfQueries(const AnyView& array, int64_t group) const {  // [batch, heads, ..]
    return array.At(Batch(group)).At(Head(group));
  }
  template <class AnyView>
  AnyView OfKeys(const AnyView& array, int64_t group) const {  // [batch, kv_heads, ..]
    return array.At(Batch(group)).At(KvHead(group));
  }
  // Whether query `query` sees key `key`, if that exists.
  bool Sees(int64_t query, int64_t key) const {
    const int64_t place = before + query;
    if (causal && key > place) return false;
    return window < 0 || (key <= place + window && key >= place - window) != beyond;
  }
  // [key_length], or null if all keys of the group exist.
  const float* Mask(int64_t group) const {
    return mask.empty() ? nullptr : OfKeys(mask, group).Data<float>();
  }
  // [key_length], or null if nothing is forgotten.
  const double* LogDecay(int64_t group) const {
    return log_decay.empty() ? nullptr : OfQueries(log_decay, group).Data<double>();
  }
};

// The least ℓ: e^ℓ is 0 long before.
constexpr double kLeastLogDecay = -1e6;

// Sums before the division, f64: e^{log_scale}·numerator and e^{log_scale}·denominator are the true
// sums over keys (query norms and normalisers included), so that sums over several sets of keys
// combine. log_scale is −∞ if no key exists.
struct SumParts {
  View log_scale;    // [batch · heads, query_length]
  View numerator;    // [batch · heads, query_length, value_dim]
  View denominator;  // [batch · heads, query_length]
};

// A forward call. log_sum is what a backward call needs of each row: log Σ_j K(q, k_j), normalisers
// included; 0 if not normalised; +∞ where the output row is 0 by definition.
struct AttentionArguments {
  const AttentionProblem& problem;
  View out;      // [batch, heads, query_length, value_dim]
  View log_sum;  // f64 (on a GPU f32) [batch · heads, query_length]; none: not wanted
  TallyEntry* tally;
  // If given, filled instead of `out` and log_sum, and no row is counted as empty or nonpositive.
  // The type of `out` still chooses the backend.
  SumParts parts{};
  // Whether kernels::ExactAttention on the CPU, or LinearAttention on a GPU, also counts unusable
  // rows of the inputs as CountUnusable does: while it reads them.
  bool checks_inputs = false;

  // On the CPU only.
  double* LogSum(int64_t group) const {
    return log_sum.empty() ? nullptr : log_sum.At(group).Data<double>();
  }
};

// A backward call. Query heads that share keys add up in grad_k and grad_v.
struct AttentionGradients {
  const AttentionProblem& problem;
  ConstView out, grad_out;  // like `out` above
  ConstView log_sum;        // what the forward call gave
  ConstView delta;  // f64 (on a GPU f32) [batch · heads, query_length]: −dO·O, 0 if not normalised
  View grad_q, grad_k, grad_v;
  View grad_log_decay;  // [batch, heads, key_length]; none: nothing is forgotten
  TallyEntry* tally;
  bool add = false;  // linear attention: add to the gradients instead of storing there
  // Exact attention: weights of normalised rows are at most 1. Not so if keys of another call,
  // which share the normaliser, can have negative weights.
  bool bounded = true;
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ATTENTION_PROBLEM_H_
