#include "attention/state_numbers.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/error_text.h"

namespace favor::attention {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 53;

// One field of all states, one after the other.
std::vector<double> Join(const AttentionState::Impl& impl,
                         std::vector<double> kernels::PrefixState::*field) {
  std::vector<double> all;
  for (const kernels::PrefixState& state : impl.states)
    all.insert(all.end(), (state.*field).begin(), (state.*field).end());
  return all;
}

// And back.
void Split(std::span<const double> all, std::vector<double> kernels::PrefixState::*field,
           AttentionState::Impl& impl) {
  for (kernels::PrefixState& state : impl.states) {
    std::vector<double>& to = state.*field;
    std::ranges::copy(all.first(to.size()), to.begin());
    all = all.subspan(to.size());
  }
}

}  // namespace

void StoreNumbers(const AttentionState::Impl& impl, const std::string& prefix,
                  io::Safetensors& file) {
  const int64_t b = impl.batch, h = impl.plan.heads(), width = impl.plan.width();
  std::vector<int64_t> tokens;
  for (const kernels::PrefixState& state : impl.states) tokens.push_back(state.tokens);
  file.Add(prefix + "c", {b, h, width}, Join(impl, &kernels::PrefixState::c));
  file.Add(prefix + "s", {b, h, width, impl.value_dim}, Join(impl, &kernels::PrefixState::s));
  file.Add(prefix + "z", {b, h, width}, Join(impl, &kernels::PrefixState::z));
  file.Add(prefix + "tokens", {b, h}, std::move(tokens));
}

void LoadNumbers(const io::Safetensors& file, const std::string& prefix, const std::string& who,
                 AttentionState::Impl& impl) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidData, Printable(who), what);
  };
  const auto numbers = [&](const char* name, const std::vector<int64_t>& shape,
                           bool minus_infinity = false) {
    const io::SafetensorsEntry& entry = file.Entry(prefix + name, who);
    if (entry.shape != shape)
      fail(fmt::format("tensor '{}{}' does not have the shape that the others ask for", prefix,
                       name));
    std::vector<double> values = entry.Values<double>(who);
    for (const double value : values) {
      if (!std::isfinite(value) && !(minus_infinity && value == -INFINITY))
        fail(fmt::format("tensor '{}{}' holds NaN or infinity", prefix, name));
    }
    return values;
  };
  const int64_t b = impl.batch, h = impl.plan.heads(), width = impl.plan.width();
  const auto c = numbers("c", {b, h, width}, /*minus_infinity=*/true),
             s = numbers("s", {b, h, width, impl.value_dim}), z = numbers("z", {b, h, width});
  const io::SafetensorsEntry& counts = file.Entry(prefix + "tokens", who);
  if (counts.shape != std::vector<int64_t>{b, h})
    fail(fmt::format("tensor '{}tokens' does not have the shape that the others ask for", prefix));
  const std::vector<int64_t> tokens = counts.Values<int64_t>(who);
  Split(c, &kernels::PrefixState::c, impl);
  Split(s, &kernels::PrefixState::s, impl);
  Split(z, &kernels::PrefixState::z, impl);
  for (size_t group = 0; group < impl.states.size(); ++group) {
    kernels::PrefixState& state = impl.states[group];
    state.tokens = tokens[group];
    if (state.tokens < 0 || state.tokens > kMaxTokens) fail("has an absurd number of tokens");
    for (const double value : state.c) {
      if ((value == -INFINITY) != state.IsEmpty())
        fail("its maxima and its number of tokens disagree");
    }
  }
}

}  // namespace favor::attention
