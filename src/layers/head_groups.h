// How the columns of a layer's queries, keys and values are divided into heads, and which attention
// each head uses.
#ifndef FAVOR_LAYERS_HEAD_GROUPS_H_
#define FAVOR_LAYERS_HEAD_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "favor/attention.h"
#include "favor/tensor.h"
#include "layers/named_columns.h"

namespace favor::layers {

// Heads of one kind of attention, one map, one size: one call on views of the layer's arrays.
struct HeadGroup {
  int64_t heads, kv_heads;  // heads of queries; heads of keys and values
  int64_t dim, value_dim;
  AttentionOptions options;
  // First memories of the heads, in tokens; empty: they do not forget.
  std::vector<double> memories = {};
  int64_t feature_dim = 0;  // > 0: attention sees queries and keys projected to this dim
  // First columns of the group in the layer's arrays, and its first head among those that forget.
  int64_t first_query = 0, first_key = 0, first_value = 0, first_output = 0;
  int64_t first_query_feature = 0, first_key_feature = 0, first_forgetting = 0;

  bool Forgets() const { return !memories.empty(); }
  int64_t SeenDim() const { return feature_dim > 0 ? feature_dim : dim; }  // as attention sees it

  // The group's columns of queries, keys, and what they are projected to.
  View QueryColumns(const View& q) const { return q.Range(1, first_query, heads * dim); }
  View KeyColumns(const View& k) const { return k.Range(1, first_key, kv_heads * dim); }
  View QueryFeatureColumns(const View& features) const {
    return features.Range(1, first_query_feature, heads * feature_dim);
  }
  View KeyFeatureColumns(const View& features) const {
    return features.Range(1, first_key_feature, kv_heads * feature_dim);
  }

  // Rows [batch·length, columns] seen as [batch, heads, length, dim].
  View Queries(const View& rows, int64_t length) const {
    return AsHeads(rows, length, first_query, heads, dim);
  }
  View Keys(const View& rows, int64_t length) const {
    return AsHeads(rows, length, first_key, kv_heads, dim);
  }
  View Values(const View& rows, int64_t length) const {
    return AsHeads(rows, length, first_value, kv_heads, value_dim);
  }
  View Outputs(const View& rows, int64_t length) const {
    return AsHeads(rows, length, first_output, heads, value_dim);
  }
  // As attention sees them: rows, or what they were projected to.
  View SeenQueries(const View& rows, const View& features, int64_t length) const {
    return feature_dim == 0 ? Queries(rows, length)
                            : AsHeads(features, length, first_query_feature, heads, feature_dim);
  }
  View SeenKeys(const View& rows, const View& features, int64_t length) const {
    return feature_dim == 0 ? Keys(rows, length)
                            : AsHeads(features, length, first_key_feature, kv_heads, feature_dim);
  }
  // Of [batch, heads that forget, length]; empty if these heads do not.
  template <class AnyView>
  AnyView Decays(const AnyView& log_decay) const {
    return Forgets() ? log_decay.Range(1, first_forgetting, heads) : AnyView();
  }

 private:
  static View AsHeads(const View& rows, int64_t length, int64_t first, int64_t heads, int64_t dim);
};

struct AttentionShape {
  int64_t width = 0;              // length of a token's row
  std::vector<HeadGroup> groups;  // side by side, in this order
  int64_t convolution = 0;        // taps of the convolutions of queries, keys and values; 0: none
  int64_t query_columns = 0, key_columns = 0, value_columns = 0, output_columns = 0;
  int64_t query_feature_columns = 0, key_feature_columns = 0;  // 0: no group is projected
  std::vector<double> memories;                                // of all heads that forget
  bool decay_per_token = true;  // every token has a decay of its own; false: one for each head

  // Queries, keys and values: "<before>query<behind>" and so on.
  std::vector<NamedColumns> Projections(const std::string& before, const std::string& behind) const;

  // Whether the attention of some group does; if not, queries and keys are not computed.
  bool ReadsQueriesAndKeys() const;

  void Add(HeadGroup group);  // its columns follow those of the groups added before
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_HEAD_GROUPS_H_
