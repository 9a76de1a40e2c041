#include "layers/attention_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "favor/error.h"

namespace favor {
namespace {

// Decoding refuses what a call on the whole sequence refuses, before the memory has moved.
TEST(AttentionMemory, RefusesNumbersOutOfRange) {
  const Context context({.threads = 1});
  AttentionOptions exact{.attention = "exact", .causal = true}, linear{.causal = true};
  linear.plan = FeaturePlan::Draw({.features = 8}, 2, 2, 1);
  for (const AttentionOptions& options : {exact, linear}) {
    layers::AttentionMemory memory({.width = 4, .heads = 2, .kv_heads = 1}, options);
    Tensor q({3, 4}), k({3, 2}), v({3, 2}), out({3, 4});
    memory.Attend(context, q, k, v, out);
    const int64_t bytes = memory.Bytes();
    for (Tensor* bad : {&q, &k, &v}) {
      for (const float value : {NAN, 1e35f}) {
        bad->Data<float>()[3] = value;
        try {
          memory.Attend(context, q, k, v, out);
          ADD_FAILURE() << options.attention << " accepted " << value;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidData) << error.what();
        }
        EXPECT_EQ(memory.Bytes(), bytes);
      }
      bad->Data<float>()[3] = 0;
    }
    memory.Attend(context, q, k, v, out);
  }
}

}  // namespace
}  // namespace favor
