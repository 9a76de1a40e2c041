// Memory beyond inputs and output does not grow with the length.
#include <algorithm>

#include <gtest/gtest.h>

#include "benchmarks/peak_memory.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

// How much resident memory rises beyond inputs and output.
std::optional<int64_t> ExtraBytes(int64_t length, const AttentionOptions& options) {
  const Tensor q = RandomTensor({length, 64}, 0.5, 1), k = RandomTensor({length, 64}, 0.5, 2),
               v = RandomTensor({length, 64}, 1, 3);
  const auto peak = benchmarks::PeakExtraBytes([&] { Attend(q, k, v, options, Context()); });
  if (!peak) return std::nullopt;
  return *peak - v.Bytes();
}

TEST(Memory, LinearAttentionOverAMillionTokensStaysUnder100MB) {
  for (const bool causal : {false, true}) {
    const auto extra = ExtraBytes(1'000'000, {.causal = causal, .features = {.features = 256}});
    ASSERT_TRUE(extra.has_value());
    EXPECT_LT(*extra, 100'000'000) << (causal ? "causal" : "bidirectional");
  }
}

TEST(Memory, GradientsOverAMillionTokensStayUnder100MB) {
  const Shape shape({1 << 20, 64});
  const Tensor q = RandomTensor(shape, 0.5, 1), k = RandomTensor(shape, 0.5, 2),
               v = RandomTensor(shape, 1, 3), grad_out = RandomTensor(shape, 1, 4);
  Tensor out(shape), grad_q(shape), grad_k(shape), grad_v(shape);
  // Touch every page, so that the outputs themselves are not measured.
  for (Tensor* tensor : {&out, &grad_q, &grad_k, &grad_v})
    std::fill_n(tensor->Data<float>(), shape.Elements(), 1.0f);
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal, .features = {.features = 256}};
    const auto extra = benchmarks::PeakExtraBytes([&] {
      const Context context;
      AttentionTrace trace;
      AttendInto({q, k, v}, options, context, out, {.trace = &trace});
      AttendBackwardInto({q, k, v, out, grad_out}, options, context, &trace,
                         {grad_q, grad_k, grad_v});
    });
    ASSERT_TRUE(extra.has_value());
    EXPECT_LT(*extra, 100'000'000) << (causal ? "causal" : "bidirectional");
    RecordProperty(causal ? "causal" : "bidirectional", std::to_string(*extra));
  }
}

// At 131,072 rows a single float row of scores would be 0.5 MB, the matrix 69 GB; 8,192 rows show
// the same and take a second.
TEST(Memory, ExactAttentionHoldsNoMatrix) {
  const auto extra = ExtraBytes(8192, {.attention = "exact"});
  ASSERT_TRUE(extra.has_value());
  EXPECT_LT(*extra, 4'000'000);
}

}  // namespace
}  // namespace favor
