#include "layers/head_groups.h"

#include <algorithm>
#include <utility>

#include "attention/kind.h"

namespace favor::layers {

View HeadGroup::AsHeads(const View& rows, int64_t length, int64_t first, int64_t heads,
                        int64_t dim) {
  const int64_t row = rows.stride(0);
  return {rows.Range(1, first, heads * dim).data(),
          rows.type(),
          {rows.size(0) / length, heads, length, dim},
          {length * row, dim, row, 1},
          rows.device()};
}

std::vector<NamedColumns> AttentionShape::Projections(const std::string& before,
                                                      const std::string& behind) const {
  return {{before + "query" + behind, query_columns},
          {before + "key" + behind, key_columns},
          {before + "value" + behind, value_columns}};
}

bool AttentionShape::ReadsQueriesAndKeys() const {
  return std::ranges::any_of(groups, [](const HeadGroup& group) {
    return attention::FindKind(group.options.attention).ReadsQueriesAndKeys();
  });
}

void AttentionShape::Add(HeadGroup group) {
  group.first_query = query_columns;
  group.first_key = key_columns;
  group.first_value = value_columns;
  group.first_output = output_columns;
  group.first_query_feature = query_feature_columns;
  group.first_key_feature = key_feature_columns;
  query_columns += group.heads * group.dim;
  key_columns += group.kv_heads * group.dim;
  value_columns += group.kv_heads * group.value_dim;
  output_columns += group.heads * group.value_dim;
  group.first_forgetting = static_cast<int64_t>(memories.size());
  memories.insert(memories.end(), group.memories.begin(), group.memories.end());
  query_feature_columns += group.heads * group.feature_dim;
  key_feature_columns += group.kv_heads * group.feature_dim;
  groups.push_back(std::move(group));
}

}  // namespace favor::layers
