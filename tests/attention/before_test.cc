// Exact attention of queries that follow earlier keys: compared with the last rows of a whole call,
// and with the gradients of a loss of those rows.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/tally.h"
#include "kernels/attention_checks.h"
#include "kernels/exact_attention.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

// More than a block of 64 lanes, and of 128 rows, on either side, with remainders.
constexpr int64_t kKeys = 301, kBefore = 155, kDim = 8, kValueDim = 5;

class Before : public testing::TestWithParam<DataType> {};

TEST_P(Before, GivesTheLastRowsOfAWholeCall) {
  const Context context({.threads = 2});
  const int64_t queries = kKeys - kBefore;
  const Tensor q = RandomTensor({1, 2, kKeys, kDim}, 1, 1),
               k = RandomTensor({1, 1, kKeys, kDim}, 1, 2),
               v = RandomTensor({1, 1, kKeys, kValueDim}, 1, 3);
  Tensor grad_out = RandomTensor({1, 2, kKeys, kValueDim}, 1, 4);
  for (int64_t h = 0; h < 2; ++h) {  // a loss of the last rows only
    for (int64_t i = 0; i < kBefore * kValueDim; ++i)
      grad_out.Data<float>()[h * kKeys * kValueDim + i] = 0;
  }
  const bool reference = GetParam() == DataType::kF64;
  const AttentionOptions options{.attention = "exact", .causal = true, .reference = reference};
  const Tensor out = Attend(q, k, v, options, context);
  const AttentionGradients want = AttendBackward({q, k, v, out, grad_out}, options, context);

  const auto last = [&](const Tensor& x) { return x.view().Range(2, kBefore, queries); };
  const kernels::AttentionProblem problem{.q = last(q),
                                          .k = k,
                                          .v = v,
                                          .batch = 1,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .query_length = queries,
                                          .key_length = kKeys,
                                          .dim = kDim,
                                          .value_dim = kValueDim,
                                          .causal = true,
                                          .before = kBefore,
                                          .scale = 1 / std::sqrt(static_cast<double>(kDim))};
  const DataType type = GetParam();
  Tensor got({1, 2, queries, kValueDim}, type), log_sum({2, queries}, DataType::kF64),
      delta({2, queries}, DataType::kF64), grad_q({1, 2, queries, kDim}, type),
      grad_k({1, 1, kKeys, kDim}, type), grad_v({1, 1, kKeys, kValueDim}, type);
  const Tally tally(context);
  kernels::ExactAttention({.problem = problem, .out = got, .log_sum = log_sum, .tally = tally.At()},
                          context);
  kernels::FindDeltas({.problem = problem,
                       .out = got,
                       .grad_out = last(grad_out),
                       .delta = delta,
                       .tally = tally.At()},
                      context);
  kernels::ExactAttentionBackward({.problem = problem,
                                   .out = got,
                                   .grad_out = last(grad_out),
                                   .log_sum = log_sum,
                                   .delta = delta,
                                   .grad_q = grad_q,
                                   .grad_k = grad_k,
                                   .grad_v = grad_v,
                                   .tally = tally.At()},
                                  context);
  EXPECT_EQ(tally.Read()[0].unusable, 0);
  const auto copy = [&](const Tensor& x) {
    Tensor rows(last(x).shape(), type);
    Copy(last(x), rows);
    return rows;
  };
  const double tolerance = reference ? 1e-12 : 3e-6;
  EXPECT_LT(LargestDifference(got, copy(out)), tolerance);
  EXPECT_LT(LargestDifference(grad_q, copy(want.q)), tolerance);
  EXPECT_LT(LargestDifference(grad_k, want.k), tolerance);
  EXPECT_LT(LargestDifference(grad_v, want.v), tolerance);
}

INSTANTIATE_TEST_SUITE_P(Types, Before, testing::Values(DataType::kF32, DataType::kF64),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace favor
