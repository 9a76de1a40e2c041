#include "attention/kinds.h"

#include <algorithm>
#include <array>

#include "core/error_text.h"

namespace favor {
namespace {

using attention::AttentionKind;
using attention::ContextMemory;

constexpr std::array<AttentionKind, 4> kKinds = {{
    {.name = "exact",
     .forward = attention::Exact,
     .backward = attention::ExactBackward,
     .memory = ContextMemory::kKeysAndValues,
     .checks_results = true},
    {.name = "linear",
     .forward = attention::Linear,
     .backward = attention::LinearBackward,
     .memory = ContextMemory::kPrefixState,
     .takes_plan = true,
     .checks_ranges = true,
     .checks_results = true},
    {.name = "identity", .forward = attention::Identity, .backward = attention::IdentityBackward},
    {.name = "uniform",
     .forward = attention::Uniform,
     .backward = attention::UniformBackward,
     .memory = ContextMemory::kSumOfValues},
}};

constexpr auto kNames = [] {
  std::array<std::string_view, kKinds.size()> names;
  std::ranges::transform(kKinds, names.begin(), &AttentionKind::name);
  return names;
}();

}  // namespace

std::span<const std::string_view> AttentionNames() { return kNames; }

const AttentionKind& attention::FindKind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &AttentionKind::name);
  if (found == kKinds.end()) {
    Throw(ErrorCode::kInvalidOption, "attention", "unknown name '{}'{}", Printable(name),
          Suggest(name, AttentionNames()));
  }
  return *found;
}

}  // namespace favor
