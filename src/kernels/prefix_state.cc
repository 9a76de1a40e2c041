#include "kernels/prefix_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/copy.h"

namespace favor::kernels {

PrefixState PrefixStates::At(int64_t group) const {
  const int64_t width = c.size(1), value_dim = s.size(2);
  const auto count = static_cast<size_t>(width);
  return {.width = width,
          .value_dim = value_dim,
          .tokens = tokens.Data<double>() + group,
          .c = {c.Data<double>() + group * width, count},
          .z = {z.Data<double>() + group * width, count},
          .s = s.Data<double>() + group * width * value_dim,
          .log_decay = log_decay.Data<double>() + group};
}

PrefixStates PrefixStates::Range(int64_t begin, int64_t count) const {
  return {.tokens = tokens.Range(0, begin, count),
          .c = c.Range(0, begin, count),
          .z = z.Range(0, begin, count),
          .s = s.Range(0, begin, count),
          .log_decay = log_decay.Range(0, begin, count)};
}

StateTensors::StateTensors(const Shape& groups, int64_t width, int64_t value_dim,
                           const Device& device)
    : tokens_(groups, DataType::kF64, device),
      c_({groups[0], width}, DataType::kF64, device),
      z_({groups[0], width}, DataType::kF64, device),
      s_({groups[0], width, value_dim}, DataType::kF64, device),
      log_decay_(groups, DataType::kF64, device),
      views_(MakeViews()) {}

StateTensors::StateTensors(int64_t groups, int64_t width, int64_t value_dim)
    : StateTensors(Shape{groups}, width, value_dim, Device{}) {
  std::fill_n(c_.Data<double>(), groups * width, -std::numeric_limits<double>::infinity());
}

StateTensors::StateTensors(int64_t groups, int64_t width, int64_t value_dim, const Context& context)
    : StateTensors(Shape{groups}, width, value_dim, context.device()) {
  SetToNoMaxima(context);
}

bool StateTensors::Restart(int64_t groups, int64_t width, int64_t value_dim,
                           const Context& context) const {
  if (empty() || views_.s.shape() != Shape{groups, width, value_dim} ||
      views_.s.device() != context.device())
    return false;
  for (const View& sums : {views_.tokens, views_.z, views_.s, views_.log_decay})
    Zero({.y = sums}, context);
  SetToNoMaxima(context);
  return true;
}

void StateTensors::SetToNoMaxima(const Context& context) const {
  if (context.device().type == DeviceType::kCuda) return cuda::SetToNoMaxima(views_, context);
  std::fill_n(views_.c.Data<double>(), views_.c.shape().Elements(),
              -std::numeric_limits<double>::infinity());
}

PrefixStates StateTensors::MakeViews() { return {tokens_, c_, z_, s_, log_decay_}; }

int64_t StateTensors::Bytes() const { return c_.Bytes() + z_.Bytes() + s_.Bytes(); }

StateTensors StateTensors::Clone() const { return To(tokens_.device()); }

StateTensors StateTensors::To(const Device& device) const {
  StateTensors copy;
  copy.tokens_ = tokens_.To(device);
  copy.c_ = c_.To(device);
  copy.z_ = z_.To(device);
  copy.s_ = s_.To(device);
  copy.log_decay_ = log_decay_.To(device);
  copy.views_ = copy.MakeViews();
  return copy;
}

void MergeInto(const PrefixState& later, const PrefixState& state) {
  if (*later.log_decay != 0) state.Forget(*later.log_decay);
  if (later.IsEmpty()) return;
  for (int64_t r = 0; r < state.width; ++r) {
    const auto i = static_cast<size_t>(r);
    const double c = std::max(state.c[i], later.c[i]);
    const double mine = std::exp(state.c[i] - c), theirs = std::exp(later.c[i] - c);
    state.c[i] = c;
    state.z[i] = mine * state.z[i] + theirs * later.z[i];
    double* s = state.s + r * state.value_dim;
    const double* o = later.s + r * state.value_dim;
    for (int64_t v = 0; v < state.value_dim; ++v) s[v] = mine * s[v] + theirs * o[v];
  }
  *state.tokens += *later.tokens;
}

void cpu::MergeStates(const MergeArguments& a, const Context&) {
  for (int64_t group = 0; group < a.states.groups(); ++group)
    MergeInto(a.later.At(group), a.states.At(group));
}

}  // namespace favor::kernels
