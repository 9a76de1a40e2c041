// How the columns of a layer's queries, keys and values are divided into heads, and which attention
// each head uses.
#ifndef FAVOR_LAYERS_HEAD_GROUPS_H_
#define FAVOR_LAYERS_HEAD_GROUPS_H_

#include <cstdint>
#include <vector>

#include "favor/attention.h"
#include "favor/tensor.h"

namespace favor::layers {

// Heads of one kind of attention, one map, one size: one call on views of the layer's arrays.
struct HeadGroup {
  int64_t heads, kv_heads;  // heads of queries; heads of keys and values
  int64_t dim, value_dim;
  AttentionOptions options;
  // First columns of the group in the layer's arrays.
  int64_t first_query = 0, first_key = 0, first_value = 0, first_output = 0;

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

 private:
  static View AsHeads(const View& rows, int64_t length, int64_t first, int64_t heads, int64_t dim);
};

struct AttentionShape {
  // A shape in which all heads are alike.
  static AttentionShape Uniform(int64_t width, int64_t heads, int64_t kv_heads,
                                const AttentionOptions& options);

  int64_t width = 0;              // length of a token's row
  std::vector<HeadGroup> groups;  // side by side, in this order
  int64_t convolution = 0;        // taps of the convolutions of queries, keys and values; 0: none
  int64_t query_columns = 0, key_columns = 0, value_columns = 0, output_columns = 0;

  // Whether the attention of some group does; if not, queries and keys are not computed.
  bool ReadsQueriesAndKeys() const;

  void Add(HeadGroup group);  // its columns follow those of the groups added before
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_HEAD_GROUPS_H_
