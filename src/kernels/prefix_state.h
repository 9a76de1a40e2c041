// The state of a set of keys, per feature r, for one head:
//
//   c_r = max_j E_jr    S_r = Σ_j exp(E_jr − c_r) g_jr v_j    z_r = Σ_j exp(E_jr − c_r) g_jr
//
// Reading it with a query: F_r = E_r(q) + c_r, ρ = max_r F_r, w_r = exp(F_r − ρ) g_r(q), N = Σ_r
// w_r S_r, D = Σ_r w_r z_r. For positive maps z_r ≥ 1 for every feature and one w_r is 1: D ≥ 1
// without an epsilon, at any norm. States merge associatively.
//
// Forgetting (AttentionProblem::log_decay): exponents are relative to the last key, E_jr + Σ_{s>j}
// ℓ_s, and Λ = Σ ℓ is what the keys of the state make those before them forget. Merging has an
// order.
//
// Sums are double: in float, a sum over a million keys would no longer change with the next key.
#ifndef FAVOR_KERNELS_PREFIX_STATE_H_
#define FAVOR_KERNELS_PREFIX_STATE_H_

#include <cstdint>
#include <span>

#include "favor/tensor.h"
#include "kernels/backend.h"

namespace favor::kernels {

constexpr int64_t kMostTokens = int64_t{1} << 53;  // counts are doubles on every device

// The state of one head on the CPU: a part of a PrefixStates.
struct PrefixState {
  int64_t width, value_dim;
  double* tokens;       // keys that exist (not masked)
  std::span<double> c;  // [width]; −∞ before the first key
  std::span<double> z;  // [width]
  double* s;            // [width, value_dim]
  double* log_decay;    // Λ

  bool IsEmpty() const { return *tokens == 0; }
  // Every key counts e^more times what it counted.
  void Forget(double more) const {
    for (double& maximum : c) maximum += more;
    *log_decay += more;
  }
  static int64_t Bytes(int64_t width, int64_t value_dim) { return width * (value_dim + 2) * 8; }
};

// States of many heads, in the memory of one device.
struct PrefixStates {
  View tokens;     // f64 [groups], whole numbers
  View c, z;       // f64 [groups, width]
  View s;          // f64 [groups, width, value_dim]
  View log_decay;  // f64 [groups]

  bool empty() const { return tokens.empty(); }
  int64_t groups() const { return tokens.size(0); }
  // The state of group `group`; on the CPU only.
  PrefixState At(int64_t group) const;
  PrefixStates Range(int64_t begin, int64_t count) const;
};

// States that own their memory; they begin without keys.
class StateTensors {
 public:
  StateTensors() = default;
  StateTensors(int64_t groups, int64_t width, int64_t value_dim);
  // On the context's device, for operations that are queued in it.
  StateTensors(int64_t groups, int64_t width, int64_t value_dim, const Context& context);

  // Makes them begin again without keys, queued in the context. False if they have other sizes or
  // are on another device: nothing changes then.
  bool Restart(int64_t groups, int64_t width, int64_t value_dim, const Context& context) const;

  PrefixStates views() const { return views_; }
  bool empty() const { return views_.empty(); }
  int64_t Bytes() const;  // size of c, z and s
  StateTensors Clone() const;
  StateTensors To(const Device& device) const;  // a copy there

 private:
  StateTensors(const Shape& groups, int64_t width, int64_t value_dim, const Device& device);
  PrefixStates MakeViews();
  void SetToNoMaxima(const Context& context) const;

  Tensor tokens_, c_, z_, s_, log_decay_;
  PrefixStates views_;
};

// Appends the keys of `later` to `state`.
void MergeInto(const PrefixState& later, const PrefixState& state);

// The same for the states of many heads.
struct MergeArguments {
  PrefixStates later, states;  // as many, on one device
};

namespace cpu {
void MergeStates(const MergeArguments& a, const Context& context);
}
namespace cuda {
void MergeStates(const MergeArguments& a, const Context& context);
void SetToNoMaxima(const PrefixStates& states, const Context& context);  // c = −∞
}  // namespace cuda

inline void MergeStates(const MergeArguments& a, const Context& context) {
  RunOn<MergeArguments>(
      a.states.tokens.device(), /*reference=*/false,
      {.name = "state", .reference = nullptr, .cpu = cpu::MergeStates, .cuda = cuda::MergeStates},
      a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_PREFIX_STATE_H_
