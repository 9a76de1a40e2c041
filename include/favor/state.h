// The prefix state: all that linear attention keeps of the tokens read so far, its prefix. Its size
// does not depend on the length of the prefix.
//
//   favor::AttentionState state(plan, {.value_dim = 64});
//   state.Append(k, v, context);                  // any number of tokens, any number of times
//   favor::Tensor out = state.Attend(q, context);  // attention of q to everything appended
//
// Token by token, in chunks, or merged from halves: the same result within rounding.
//
// Functions that are const may be called on one state from several threads, even with one Context;
// the others need exclusive access to the state.
#ifndef FAVOR_STATE_H_
#define FAVOR_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "favor/attention.h"
#include "favor/context.h"
#include "favor/features.h"
#include "favor/tensor.h"

namespace favor {

struct StateOptions {
  int64_t batch = 1;
  int64_t value_dim = 0;        // dim of the values that will be appended
  std::optional<double> scale;  // factor of q·k; default 1/√d
  ConstView key_mean;  // [d] or [heads, d], subtracted from every key; empty: no centring. Copied.
  int64_t begin = 0;   // position of the first token that will be appended
  bool forgets = false;  // tokens come with a log_decay
  Device device;         // where the state lives: what it reads and writes must be there too
};

// What comes with new tokens. Both as in AttentionOptions.
struct TokenOptions {
  ConstView key_mask;
  ConstView log_decay;  // of a state that forgets, and only of it
};

// Arguments are checked before anything changes: after an Error about them the state is as it was.
// Only "a sum over keys exceeds the range of floats" (kInvalidData) is found while computing: by
// then keys may have joined the states of some heads and not of others, and the state should be
// dropped, or a Clone used that was made before. Outputs are undefined after an Error.
class AttentionState {
 public:
  // One state for each batch entry and head of the plan. oprf's A is the plan's.
  AttentionState(const FeaturePlan& plan, const StateOptions& options);
  ~AttentionState();
  AttentionState(AttentionState&&) noexcept;
  AttentionState& operator=(AttentionState&&) noexcept;

  const FeaturePlan& plan() const;
  int64_t batch() const;
  int64_t value_dim() const;
  double scale() const;
  int64_t tokens() const;  // appended so far, without masked ones; the largest over batch and heads
  // Positions of the first token and one past the last, counting masked ones.
  int64_t begin() const;
  int64_t end() const;
  int64_t Bytes() const;  // size of the numbers that change with the prefix
  bool forgets() const;
  Device device() const;

  // Keys and values [L, d], [H_kv, L, d] or [B, H_kv, L, d], H_kv dividing the plan's heads.
  void Append(ConstView k, ConstView v, const Context& context, const TokenOptions& options = {});

  // Attention of queries [.., H, L, d] to the prefix.
  Tensor Attend(ConstView q, const Context& context, AttentionReport* report = nullptr) const;

  // Causal attention of new tokens: each sees the prefix and the new tokens up to itself. They
  // become part of the prefix.
  Tensor Continue(ConstView q, ConstView k, ConstView v, const Context& context,
                  const TokenOptions& options = {}, AttentionReport* report = nullptr);

  // The same, written to the caller's memory, [.., H, L, value_dim] f32 (on a GPU f32 or of the
  // type of q), not overlapping the arguments.
  void ContinueInto(const AttentionInputs& inputs, const Context& context, View out,
                    const TokenOptions& options = {}, AttentionReport* report = nullptr);

  AttentionState Clone() const;                   // to continue from one prefix in two ways
  AttentionState To(const Device& device) const;  // a copy on another device

  // Sums before the division, in f64: e^{log_scale}·numerator and e^{log_scale}·denominator are the
  // sums over keys, so that what is read from several states combines like the pieces of one
  // softmax.
  struct Parts {
    Tensor log_scale;    // [.., H, L]
    Tensor numerator;    // [.., H, L, value_dim]
    Tensor denominator;  // [.., H, L]
  };
  Parts Read(ConstView q, const Context& context) const;

  // Appends the tokens of `later` to those of this state. Throws kInvalidData unless map, ω, A,
  // mean, scale and sizes are the same and both forget or neither; states that forget must also
  // follow each other: the later begins where this one ends. States on a GPU need a context there.
  void Merge(const AttentionState& later, const Context& context);
  void Merge(const AttentionState& later);  // of states on the CPU

  // Writes a safetensors file with everything that defines the state and a checksum, atomically;
  // it does not say on which device the state lived. Load refuses a damaged file, and gives a state
  // on the CPU.
  void Save(const std::string& path) const;
  static AttentionState Load(const std::string& path);
  static AttentionState Parse(std::span<const std::byte> bytes, const std::string& name);

 private:
  friend struct internal::Access;
  explicit AttentionState(std::unique_ptr<attention::State> impl);

  std::unique_ptr<attention::State> impl_;
};

}  // namespace favor

#endif  // FAVOR_STATE_H_
