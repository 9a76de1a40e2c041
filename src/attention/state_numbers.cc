#include "attention/state_numbers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error_text.h"
#include "core/host_copy.h"

namespace favor::attention {
namespace {

std::vector<double> Values(const View& numbers) {
  const HostCopy copy(numbers);
  const auto* data = copy.view().Data<double>();
  return {data, data + numbers.shape().Elements()};
}

}  // namespace

void StoreState(const State& state, const std::string& prefix, io::Safetensors& file) {
  const int64_t b = state.batch, h = state.plan.heads(), width = state.plan.width();
  const kernels::PrefixStates views = state.states.views();
  std::vector<int64_t> tokens;
  for (const double count : Values(views.tokens)) tokens.push_back(static_cast<int64_t>(count));
  file.Add(prefix + "c", {b, h, width}, Values(views.c));
  file.Add(prefix + "s", {b, h, width, state.value_dim}, Values(views.s));
  file.Add(prefix + "z", {b, h, width}, Values(views.z));
  file.Add(prefix + "tokens", {b, h}, std::move(tokens));
  if (state.forgets) file.Add(prefix + "log_decay", {b, h}, Values(views.log_decay));
}

void LoadState(const io::Safetensors& file, const std::string& prefix, const std::string& who,
               State& state) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidData, Printable(who), what);
  };
  const auto numbers = [&](const char* name, const std::vector<int64_t>& shape,
                           bool minus_infinity = false) {
    const io::SafetensorsEntry& entry = file.Entry(prefix + name, who);
    if (entry.shape != shape)
      fail(fmt::format("tensor '{}{}' does not have the shape that the other tensors imply", prefix,
                       name));
    std::vector<double> values = entry.Values<double>(who);
    for (const double value : values) {
      if (!std::isfinite(value) && !(minus_infinity && value == -INFINITY))
        fail(fmt::format("tensor '{}{}' holds NaN or infinity", prefix, name));
    }
    return values;
  };
  const int64_t b = state.batch, h = state.plan.heads(), width = state.plan.width();
  const auto c = numbers("c", {b, h, width}, /*minus_infinity=*/true),
             s = numbers("s", {b, h, width, state.value_dim}), z = numbers("z", {b, h, width});
  const io::SafetensorsEntry& counts = file.Entry(prefix + "tokens", who);
  if (counts.shape != std::vector<int64_t>{b, h})
    fail(fmt::format("tensor '{}tokens' does not have the shape that the other tensors imply",
                     prefix));
  const std::vector<int64_t> tokens = counts.Values<int64_t>(who);
  std::vector<double> log_decay(static_cast<size_t>(state.Groups()), 0.0);
  if (state.forgets) log_decay = numbers("log_decay", {b, h});
  const kernels::PrefixStates views = state.states.views();
  std::ranges::copy(c, views.c.Data<double>());
  std::ranges::copy(s, views.s.Data<double>());
  std::ranges::copy(z, views.z.Data<double>());
  for (int64_t group = 0; group < state.Groups(); ++group) {
    const int64_t count = tokens[static_cast<size_t>(group)];
    if (count < 0 || count > kernels::kMostTokens) fail("has an impossible number of tokens");
    const kernels::PrefixState one = views.At(group);
    *one.tokens = static_cast<double>(count);
    *one.log_decay = log_decay[static_cast<size_t>(group)];
    if (!(*one.log_decay <= 0 && *one.log_decay >= kernels::kLeastLogDecay * *one.tokens))
      fail(fmt::format("'{}log_decay' is out of range", prefix));
    for (const double value : one.c) {
      if ((value == -INFINITY) != one.IsEmpty())
        fail("its maxima and its number of tokens disagree");
    }
  }
}

void LoadPrefix(const io::Safetensors& file, const std::string& prefix, int64_t tokens,
                const std::string& who, State& state) {
  LoadState(file, prefix + "state.", who, state);
  const double* counts = state.states.views().tokens.Data<double>();
  for (int64_t group = 0; group < state.Groups(); ++group) {
    if (counts[group] != static_cast<double>(tokens))
      Throw(ErrorCode::kInvalidData, Printable(who), "'{}state' has read {} tokens, expected {}",
            prefix, counts[group], tokens);
  }
  state.end = state.begin + tokens;
}

}  // namespace favor::attention
