// Linear attention on prefix states (prefix_state.h): a whole call, and the operations on states
// that outlive a call.
//
// Within a causal chunk the maxima c_r cover keys that its first rows may not see. If the
// denominator of a row falls below 2⁻⁹⁰ for that reason (signed maps: its exponent), the chunk is
// computed again in halves, down to single tokens, for which D ≥ 1.
#ifndef FAVOR_KERNELS_LINEAR_ATTENTION_H_
#define FAVOR_KERNELS_LINEAR_ATTENTION_H_

#include "kernels/attention_problem.h"
#include "kernels/backend.h"
#include "kernels/features.h"
#include "kernels/linear_segments.h"
#include "kernels/prefix_state.h"

namespace favor::kernels {

// What kernels on a GPU take: columns of queries, keys or values, and features of a head.
constexpr int64_t kMostGpuColumns = 256, kMostGpuWidth = 2048;

// What linear attention needs besides arrays: constants of every head, from a plan or a call.
struct LinearHeads {
  const FeatureConstants& features;
  ConstView oprf_a;    // f64 [batch, heads]: A of this call; empty: that of `features`
  ConstView key_mean;  // f64 [batch, heads, dim], subtracted from keys; empty: keys as they are

  HeadFeatures Features(const AttentionProblem& problem, int64_t group) const {
    HeadFeatures head = features.Head(problem.Head(group));
    if (!oprf_a.empty()) head.SetOprfA(problem.OfQueries(oprf_a, group).Data<double>()[0]);
    return head;
  }
  // [dim] or null.
  const double* KeyMean(const AttentionProblem& problem, int64_t group) const {
    return key_mean.empty() ? nullptr : problem.OfQueries(key_mean, group).Data<double>();
  }
};

struct LinearArguments {
  AttentionArguments call;
  LinearHeads heads;
  // [batch · heads]. LinearAttention: if given, a causal call continues from them and they move to
  // its end; a bidirectional call leaves the states of all keys there (its backward call reads
  // them). LinearAppend: keys join them. LinearRead: queries read them.
  PrefixStates states{};
  // If given, a causal LinearAttention on a GPU leaves states of its segments there, in the memory
  // of an earlier call if it fits, or notes that it kept none.
  KeptStates* kept = nullptr;
};

// Every operation that changes states does nothing if the tally already counts unusable rows: a
// check that ran first can refuse a call without involving the host.
namespace reference {  // token by token, in double
void LinearAttention(const LinearArguments& a, const Context& context);
}
namespace cpu {  // in panels; a causal call `chunk` rows at a time
void LinearAttention(const LinearArguments& a, const Context& context);
void LinearAppend(const LinearArguments& a, const Context& context);
void LinearRead(const LinearArguments& a, const Context& context);
}  // namespace cpu
namespace cuda {  // in segments, in f32 with states merged in double; no windows
void LinearAttention(const LinearArguments& a, const Context& context);
void LinearAppend(const LinearArguments& a, const Context& context);
void LinearRead(const LinearArguments& a, const Context& context);
}  // namespace cuda

inline void LinearAttention(const LinearArguments& a, const Context& context) {
  Run<LinearArguments>({.name = "linear attention",
                        .reference = reference::LinearAttention,
                        .cpu = cpu::LinearAttention,
                        .cuda = cuda::LinearAttention},
                       a.call.out, a, context);
}
// States are f64 on every backend: only their device decides which backend runs.
inline void LinearAppend(const LinearArguments& a, const Context& context) {
  RunOn<LinearArguments>(
      a.states.tokens.device(), /*reference=*/false,
      {.name = "state", .reference = nullptr, .cpu = cpu::LinearAppend, .cuda = cuda::LinearAppend},
      a, context);
}
inline void LinearRead(const LinearArguments& a, const Context& context) {
  RunOn<LinearArguments>(
      a.states.tokens.device(), /*reference=*/false,
      {.name = "state", .reference = nullptr, .cpu = cpu::LinearRead, .cuda = cuda::LinearRead}, a,
      context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LINEAR_ATTENTION_H_
