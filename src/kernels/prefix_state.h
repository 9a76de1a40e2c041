// The state of a set of keys, per feature r, for one head:
//
//   c_r = max_j E_jr    S_r = Σ_j exp(E_jr − c_r) g_jr v_j    z_r = Σ_j exp(E_jr − c_r) g_jr
//
// Reading it with a query: F_r = E_r(q) + c_r, ρ = max_r F_r, w_r = exp(F_r − ρ) g_r(q), N = Σ_r
// w_r S_r, D = Σ_r w_r z_r. For positive maps z_r ≥ 1 for every feature and one w_r is 1: D ≥ 1
// without an epsilon, at any norm. States merge associatively.
#ifndef FAVOR_KERNELS_PREFIX_STATE_H_
#define FAVOR_KERNELS_PREFIX_STATE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace favor::kernels {

// Sums are double: a float that has grown over a million keys no longer feels the next one. They
// are m·(value_dim + 1) numbers a head.
struct PrefixState {
  PrefixState() = default;
  PrefixState(int64_t features_width, int64_t values)
      : width(features_width),
        value_dim(values),
        c(static_cast<size_t>(width), -std::numeric_limits<double>::infinity()),
        s(static_cast<size_t>(width * value_dim), 0.0),
        z(static_cast<size_t>(width), 0.0) {}

  bool IsEmpty() const { return tokens == 0; }
  static int64_t Bytes(int64_t width, int64_t value_dim) { return width * (value_dim + 2) * 8; }

  int64_t width = 0;
  int64_t value_dim = 0;
  int64_t tokens = 0;     // keys that exist (not masked)
  std::vector<double> c;  // [width]; −∞ before the first key
  std::vector<double> s;  // [width, value_dim]
  std::vector<double> z;  // [width]
};

// Turns `state` into the state of its keys and of `other`'s.
inline void MergeInto(const PrefixState& other, PrefixState& state) {
  if (other.IsEmpty()) return;
  for (int64_t r = 0; r < state.width; ++r) {
    const auto i = static_cast<size_t>(r);
    const double c = std::max(state.c[i], other.c[i]);
    const double mine = std::exp(state.c[i] - c), theirs = std::exp(other.c[i] - c);
    state.c[i] = c;
    state.z[i] = mine * state.z[i] + theirs * other.z[i];
    double* s = state.s.data() + r * state.value_dim;
    const double* o = other.s.data() + r * state.value_dim;
    for (int64_t v = 0; v < state.value_dim; ++v) s[v] = mine * s[v] + theirs * o[v];
  }
  state.tokens += other.tokens;
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_PREFIX_STATE_H_
