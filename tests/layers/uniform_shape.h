#ifndef FAVOR_TESTS_LAYERS_UNIFORM_SHAPE_H_
#define FAVOR_TESTS_LAYERS_UNIFORM_SHAPE_H_

#include "layers/head_groups.h"

namespace favor {

// A layer in which all heads are alike.
inline layers::AttentionShape UniformShape(int64_t width, int64_t heads, int64_t kv_heads,
                                           const AttentionOptions& options) {
  layers::AttentionShape shape{.width = width};
  const int64_t dim = width / heads;
  shape.Add(
      {.heads = heads, .kv_heads = kv_heads, .dim = dim, .value_dim = dim, .options = options});
  return shape;
}

}  // namespace favor

#endif  // FAVOR_TESTS_LAYERS_UNIFORM_SHAPE_H_
