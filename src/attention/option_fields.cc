#include "attention/option_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace favor::attention {
namespace {

struct Entry {
  AttentionOptionInfo info;
  std::vector<std::string_view> kinds;
  std::string help;
};

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> list;
    for (const AttentionKindInfo& kind : AttentionKinds()) {
      for (const AttentionOptionInfo& info : kind.options) {
        const auto same = [&info](const Entry& entry) { return entry.info.name == info.name; };
        auto found = std::ranges::find_if(list, same);
        if (found == list.end()) found = list.insert(list.end(), {.info = info});
        found->kinds.push_back(kind.name);
      }
    }
    for (Entry& entry : list) {
      entry.help = fmt::format("{} (for {} attention; default {})", entry.info.help,
                               fmt::join(entry.kinds, ", "), entry.info.standard);
    }
    return list;
  }();
  return entries;
}

}  // namespace

std::vector<Field> OptionFields(KindOptions& options) {
  std::vector<Field> fields;
  for (const Entry& entry : Entries()) {
    fields.push_back({entry.info.name, entry.help,
                      EntryField{&options, entry.info.name, entry.info.least, entry.info.most},
                      /*sparse=*/true});
  }
  return fields;
}

}  // namespace favor::attention
