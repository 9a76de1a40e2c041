#include "reports/memory_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace favor::reports {

Table MemoryTable(const models::HeadMemories& memories) {
  Table table{.title = "Memory of heads, in tokens",
              .caption =
                  "What came so many tokens before counts 1/e of what it counted, at a "
                  "token whose row changes nothing (w·x = 0); all: the head does not "
                  "forget.",
              .columns = {"layer"}};
  const auto forgets = [](const auto& layer) {
    return std::ranges::any_of(layer, [](const auto& head) { return head.has_value(); });
  };
  if (std::ranges::none_of(memories, forgets)) return table;
  for (size_t head = 0; head < memories[0].size(); ++head)
    table.columns.push_back(fmt::format("head {}", head + 1));
  for (size_t layer = 0; layer < memories.size(); ++layer) {
    table.rows.push_back({fmt::format("{}", layer + 1)});
    for (const std::optional<double>& head : memories[layer])
      table.rows.back().push_back(head ? fmt::format("{:.0f}", *head) : "all");
  }
  return table;
}

}  // namespace favor::reports
