#include "attention/kind.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error_text.h"

namespace favor {
namespace attention {

#define FAVOR_ENTRY(Name) const Kind& Name##Kind();
#include "kinds.inc"
#undef FAVOR_ENTRY

namespace {

const std::vector<const Kind*>& AllKinds() {
  static const std::vector<const Kind*> kinds = {
#define FAVOR_ENTRY(Name) &Name##Kind(),
#include "kinds.inc"
#undef FAVOR_ENTRY
  };
  return kinds;
}

}  // namespace

void Kind::Complete(const AttentionOptions& options, const Context&, Call&) const {
  const bool given =
      options.compat != Compat::kNone || options.center_keys || options.plan.has_value();
  if (given) {
    Throw(ErrorCode::kInvalidOption, "attend",
          "given a plan, key centring or compat: they belong to linear attention, not to '{}'",
          name());
  }
}

double ScaleOf(const AttentionOptions& options, int64_t dim) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
}

std::vector<int64_t> KindOptionValues(const Kind& kind, const KindOptions& options) {
  for (const auto& [name, value] : options) {
    if (std::ranges::find(kind.options(), name, &AttentionOptionInfo::name) == kind.options().end())
      Throw(ErrorCode::kInvalidOption, "attention", "given {}, which '{}' attention does not have",
            Printable(name), kind.name());
  }
  std::vector<int64_t> values;
  for (const AttentionOptionInfo& info : kind.options()) {
    const auto given = options.find(info.name);
    const int64_t value = given == options.end() ? info.standard : given->second;
    if (value < info.least || value > info.most)
      Throw(ErrorCode::kInvalidOption, info.name, "given {}, expected {} to {}", value, info.least,
            info.most);
    values.push_back(value);
  }
  return values;
}

const Kind& FindKind(std::string_view name) {
  const auto found = std::ranges::find(AllKinds(), name, &Kind::name);
  if (found == AllKinds().end()) {
    Throw(ErrorCode::kInvalidOption, "attention", "unknown name '{}'{}", Printable(name),
          Suggest(name, AttentionNames()));
  }
  return **found;
}

}  // namespace attention

std::span<const std::string_view> AttentionNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const attention::Kind* kind : attention::AllKinds()) list.push_back(kind->name());
    return list;
  }();
  return names;
}

std::span<const AttentionKindInfo> AttentionKinds() {
  static const std::vector<AttentionKindInfo> infos = [] {
    std::vector<AttentionKindInfo> list;
    for (const attention::Kind* kind : attention::AllKinds()) {
      list.push_back({.name = kind->name(),
                      .summary = kind->summary(),
                      .takes_plan = kind->TakesPlan(),
                      .options = kind->options()});
    }
    return list;
  }();
  return infos;
}

}  // namespace favor
