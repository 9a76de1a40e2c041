// Attention: exact softmax, linear (random features), and the two baselines that every accuracy
// figure should be compared with.
//
//   const favor::AttentionOptions options{.causal = true, .features = {.features = 256}};
//   favor::Tensor out = favor::Attend(q, k, v, options, favor::Context());
//
// Arrays are [L, d], [H, L, d] or [B, H, L, d]; keys and values may have fewer heads than queries
// (a divisor of their number), another length, and values another dim. The result has the shape of
// q with the dim of v.
//
// Exact and linear attention also run on a GPU: arrays of one type, f32, f16 or bf16, on the GPU of
// the context, with contiguous rows. Masks, decays and means of the options may be on the CPU.
//
// All functions here may be called from several threads at a time, even with one Context, as long
// as no call writes what another reads or writes. Every call uses all threads of its context.
#ifndef FAVOR_ATTENTION_H_
#define FAVOR_ATTENTION_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "favor/context.h"
#include "favor/features.h"
#include "favor/names.h"
#include "favor/tensor.h"

namespace favor {

namespace attention {
struct Trace;  // src/attention/trace.h
struct State;  // src/attention/state_data.h
}  // namespace attention

// Which public implementation to follow, its epsilons and key maxima included, to compare with it.
enum class Compat : uint8_t { kNone, kJax, kTorch };
template <>
inline constexpr auto kNamesOf<Compat> = std::to_array<std::string_view>({"none", "jax", "torch"});

// Options that some kinds of attention have and others do not, by name; AttentionKinds() lists
// them. What is missing has its standard value.
using KindOptions = std::map<std::string, int64_t, std::less<>>;

struct AttentionOptions {
  static constexpr int64_t kMaxChunk = 1024;

  std::string attention = "linear";  // a name of AttentionNames()
  bool causal = false;               // query i sees keys 0 … i; as many keys as queries
  std::optional<double> scale;       // factor of q·k; default 1/√d
  bool renormalize = true;           // false: Σ_j K(q, k_j) v_j without the division
  // 0: the key does not exist. [L], [B, L] or [B, H_kv, L]; if none is given, all exist. Borrowed:
  // the memory must outlive every call with these options.
  ConstView key_mask;
  bool reference = false;  // plain loops in double
  // Forgetting, of causal linear attention: ℓ ≤ 0, [L], [H, L] or [B, H, L] with the heads of
  // queries or of keys. Key j counts e^{ℓ_{j+1} + … + ℓ_i} times for query i. Borrowed like the
  // mask; none: nothing is forgotten.
  ConstView log_decay;

  // Linear attention only. A plan is a drawn map with one head for each query head; if none is
  // given, it is drawn as `features` says from the context's seed. With the map oprf and no A among
  // the options of either, A comes from the statistics of the call: all queries and the keys that
  // exist. Padded queries count too: for padded batches give an A.
  FeatureOptions features;
  std::optional<FeaturePlan> plan;

  // Subtract a mean from keys: the same softmax, a smaller variance. The mean is frozen, [d] or one
  // row per head, borrowed as the mask is; if none is given, it is the mean of this call's keys
  // (not causal).
  bool center_keys = false;
  ConstView key_mean;

  KindOptions kind_options;  // such as {{"window", 64}} of exact-window attention

  Compat compat = Compat::kNone;
  int64_t chunk = 60;  // rows of a causal chunk; any gives the same result within rounding
};

// The kinds of attention, for help texts and checks.
struct AttentionOptionInfo {
  std::string_view name;  // "window"
  std::string_view help;
  int64_t least, most, standard;
};
struct AttentionKindInfo {
  std::string_view name, summary;
  bool takes_plan;                               // computes with random features
  std::span<const AttentionOptionInfo> options;  // its own, besides those of AttentionOptions
};
std::span<const AttentionKindInfo> AttentionKinds();
std::span<const std::string_view> AttentionNames();

struct AttentionReport {
  int64_t nonpositive_rows = 0;  // signed maps: the denominator was ≤ 0 and the output row is 0
  int64_t empty_rows = 0;        // no key exists for the row: the output row is 0
};

// What a call keeps for its gradients: the logarithms of denominators, drawn features and, for
// linear attention that is not causal, one state per head. Without it gradients cost a second
// forward pass.
class AttentionTrace {
 public:
  AttentionTrace();
  ~AttentionTrace();
  AttentionTrace(AttentionTrace&&) noexcept;
  AttentionTrace& operator=(AttentionTrace&&) noexcept;

  int64_t Bytes() const;  // memory that it holds

 private:
  friend struct internal::Access;
  explicit AttentionTrace(attention::Trace trace);

  std::unique_ptr<attention::Trace> impl_;  // null: moved from
};

// What a call hands back besides its result; null: not wanted.
struct AttentionExtras {
  AttentionReport* report = nullptr;
  AttentionTrace* trace = nullptr;  // for AttendBackward
};

// Throws kInvalidData for arrays that do not fit or hold NaN or infinity (masked keys and values
// may, and q and k that identity and uniform attention ignore), kInvalidOption for options that
// exclude each other: a causal call refuses statistics of its
// own data (a key mean, oprf's A), which would leak the future; give frozen ones. Memory beyond the
// arrays is independent of the length. The output is f32 (f64 with `reference`). After an error the
// extras are as they were.
Tensor Attend(ConstView q, ConstView k, ConstView v, const AttentionOptions& options,
              const Context& context, const AttentionExtras& extras = {});

struct AttentionInputs {
  ConstView q, k, v;
};

// The same, written to the caller's memory: f32 (f64 with `reference`; on a GPU f32 or the type of
// q), of the shape above, not overlapping the arguments. After an error its contents are undefined.
void AttendInto(const AttentionInputs& inputs, const AttentionOptions& options,
                const Context& context, View out, const AttentionExtras& extras = {});

struct BackwardInputs {
  ConstView q, k, v;   // the arguments of the forward call
  ConstView out;       // its result
  ConstView grad_out;  // gradient of the loss with respect to `out`
};
struct AttentionGradients {
  Tensor q, k, v;    // with the shapes of the arguments
  Tensor log_decay;  // [B, H, L] with the heads of queries; empty without forgetting
};

// Gradients of a loss with respect to q, k and v from its gradient with respect to the output.
//
//   favor::AttentionTrace trace;
//   favor::Tensor out = favor::Attend(q, k, v, options, context, {.trace = &trace});
//   const favor::AttentionGradients gradients =
//       favor::AttendBackward({q, k, v, out, grad_out}, options, context, &trace);
//
// Options are those of the forward call, `trace` is what it traced (if null, the forward pass is
// computed again). Rows that are 0 by definition have no gradient. Constants: ω, a frozen key mean,
// and oprf's A even if it came from the call's data; a key mean taken from the call's keys is
// differentiated. Throws as Attend does; `compat` has no gradients. The gradients are f32, or f64
// with `reference`. Memory beyond the arrays is independent of the length except for 16 bytes per
// query (8 on a GPU) and, without a trace, a second output.
AttentionGradients AttendBackward(const BackwardInputs& inputs, const AttentionOptions& options,
                                  const Context& context, const AttentionTrace* trace = nullptr);

struct GradientViews {
  View q, k, v;
  View log_decay = {};  // [B, H, L]; not wanted, or nothing is forgotten: none
};

// The same, written to the caller's memory: the gradients must not overlap each other or the
// arguments. On a GPU those of q, k and v may be of the type of q instead of f32. After an error
// their contents are undefined.
void AttendBackwardInto(const BackwardInputs& inputs, const AttentionOptions& options,
                        const Context& context, const AttentionTrace* trace,
                        const GradientViews& gradients);

// The matrix whose product with V is the output, [.., L_q, L_k], computed by attending to one-hot
// values, one block of columns at a time.
Tensor AttentionMatrix(ConstView q, ConstView k, const AttentionOptions& options,
                       const Context& context);

}  // namespace favor

#endif  // FAVOR_ATTENTION_H_
