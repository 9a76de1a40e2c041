#include "benchmarks/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/kind.h"
#include "benchmarks/generate.h"
#include "benchmarks/sgemm.h"
#include "core/device.h"

namespace favor::benchmarks {
namespace {

TEST(Bench, FitsExponents) {
  EXPECT_FALSE(FittedExponent({{4, 1}}).has_value());
  EXPECT_FALSE(FittedExponent({{4, 1}, {4, 2}}).has_value());
  EXPECT_NEAR(FittedExponent({{1, 3}, {10, 300}, {100, 30000}}).value(), 2, 1e-12);
}

TEST(Bench, CountsOperations) {
  const attention::CacheShape shape{
      .batch = 2, .heads = 3, .kv_heads = 3, .dim = 5, .value_dim = 5};
  const auto flops = [&](const std::string& kind, bool causal, bool backward) {
    AttentionOptions options{.attention = kind, .causal = causal};
    options.features.features = 7;
    return attention::FindKind(kind).Flops(shape, 11, options, backward);
  };
  for (const bool causal : {false, true}) {
    EXPECT_EQ(flops("linear", causal, false), 2 * 3 * 8.0 * 11 * 7 * 5);
    EXPECT_EQ(flops("linear", causal, true), 2 * 3 * 24.0 * 11 * 7 * 5);
  }
  EXPECT_EQ(flops("exact", false, false), 2 * 3 * 4.0 * 11 * 11 * 5);
  EXPECT_EQ(flops("exact", true, false), 2 * 3 * 2.0 * 11 * 11 * 5);
  EXPECT_EQ(flops("exact", true, true), 2 * 3 * 7.0 * 11 * 11 * 5);
  EXPECT_EQ(flops("identity", false, true), 0);
  // A map without ω has as many features as its formula makes: 1 + d.
  AttentionOptions taylor;
  taylor.features = {.map = "taylor1", .features = 7};
  EXPECT_EQ(attention::FindKind("linear").Flops(shape, 11, taylor, false),
            2 * 3 * 8.0 * 11 * 6 * 5);
  taylor.features.map = "taylor";  // 1 + d + d(d + 1)/2
  EXPECT_EQ(attention::FindKind("linear").Flops(shape, 11, taylor, true),
            2 * 3 * 24.0 * 11 * 21 * 5);
}

TEST(Bench, CountsExponentials) {
  const attention::CacheShape shape{
      .batch = 2, .heads = 3, .kv_heads = 3, .dim = 5, .value_dim = 4};
  const auto exponentials = [&](const std::string& kind, const std::string& map, bool causal,
                                bool backward) {
    AttentionOptions options{.attention = kind, .causal = causal};
    options.features = {.map = map, .features = 7};
    return attention::FindKind(kind).Exponentials(shape, 11, options, backward);
  };
  // Features of a query and of a key for each token, two for each row of ω if a map has two parts.
  EXPECT_EQ(exponentials("linear", "positive", true, false), 2 * 3 * 11 * 2 * 7.0);
  EXPECT_EQ(exponentials("linear", "hyperbolic", false, true), 2 * 3 * 11 * 2 * 14.0 * 2);
  EXPECT_EQ(exponentials("linear", "relu", false, true), 0);
  EXPECT_EQ(exponentials("linear", "taylor", false, true), 0);
  EXPECT_EQ(exponentials("exact", "positive", false, false), 2 * 3 * 11 * 11.0);
  EXPECT_EQ(exponentials("exact", "positive", true, true), 2 * 3 * 11 * 11.0);
}

TEST(Bench, CountsBytesOfArrays) {
  const Context context({.threads = 1});
  for (const bool backward : {false, true}) {
    const AttentionBench bench = RunAttentionBench({.lengths = {16},
                                                    .batch = 2,
                                                    .heads = 3,
                                                    .dim = 4,
                                                    .features = 8,
                                                    .value_dim = 5,
                                                    .backward = backward,
                                                    .rounds = 1,
                                                    .quiet = true},
                                                   context);
    // q, k, v and the output; then all of them again, the gradient of the output and three more.
    const double forward = 2 * 4 + 2 * 5, gradients = 4 * 4 + 4 * 5;
    EXPECT_EQ(bench.rows[0].bytes, 2 * 3 * 16 * 4 * (forward + (backward ? gradients : 0)));
  }
}

// On a GPU, with all that stands in its table. Skipped without one.
TEST(CudaBench, MeasuresEveryRow) {
  if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  const Context context({.device = {DeviceType::kCuda, 0}});
  for (const bool backward : {false, true}) {
    const AttentionBench bench = RunAttentionBench({.lengths = {512, 256},
                                                    .heads = 2,
                                                    .maps = {"positive", "relu"},
                                                    .causal = true,
                                                    .backward = backward,
                                                    .window = 32,
                                                    .rounds = 1,
                                                    .type = DataType::kBF16,
                                                    .quiet = true},
                                                   context);
    EXPECT_FALSE(bench.gpu.empty());
    EXPECT_GT(*bench.copy_rate, 1e10);
    ASSERT_EQ(bench.rows.size(), 8u);  // two maps, exact attention and that of a window
    for (const AttentionMeasurement& row : bench.rows)
      EXPECT_TRUE(std::isfinite(row.seconds) && row.seconds > 0);
    EXPECT_EQ(bench.ToTable().columns.size(), bench.ToTable().rows[0].size());
  }
}

TEST(Bench, MeasuresEveryRowAndLine) {
  const Context context({.threads = 2});
  const AttentionBench bench = RunAttentionBench({.lengths = {96, 32},
                                                  .heads = 2,
                                                  .dim = 8,
                                                  .features = 16,
                                                  .maps = {"positive", "oprf"},
                                                  .projections = {"orthogonal", "hadamard"},
                                                  .causal = true,
                                                  .backward = true,
                                                  .exact_up_to = 32,
                                                  .rounds = 1,
                                                  .quiet = true},
                                                 context);
  ASSERT_EQ(bench.sgemm_gflops.has_value(), LargeSgemm::Available());
  ASSERT_EQ(bench.rows.size(), 9u);  // four ways at each length, exact at one
  for (const AttentionMeasurement& row : bench.rows) {
    EXPECT_TRUE(std::isfinite(row.seconds) && row.seconds > 0);
    // Two heads of dim 8: seven products of half of L² pairs, or twelve of L·m.
    const auto l = static_cast<double>(row.length), m = static_cast<double>(row.features);
    const double flops = 2 * (row.exact ? 7 * l * l * 8 : 24 * l * m * 8);
    EXPECT_NEAR(row.gflops, flops / row.seconds / 1e9, 1e-6 * row.gflops);
  }
  EXPECT_EQ(bench.rows[0].length, 32);  // sorted
  EXPECT_EQ(bench.lines.size(), 4u);
  EXPECT_EQ(bench.ToTable().rows.size(), 9u);
  EXPECT_EQ(bench.ToPlot().series.size(), 10u);  // for each, a line and its markers
}

// Values may have a dim of their own; a map without ω is named with the features that it makes.
TEST(Bench, MeasuresMapsWithoutOmegaAndValuesOfAnotherDim) {
  const Context context({.threads = 2});
  const AttentionBench bench = RunAttentionBench({.lengths = {32},
                                                  .heads = 2,
                                                  .dim = 4,
                                                  .features = 8,
                                                  .value_dim = 12,
                                                  .maps = {"taylor"},
                                                  .backward = true,
                                                  .exact_up_to = 32,
                                                  .rounds = 1,
                                                  .quiet = true},
                                                 context);
  ASSERT_EQ(bench.rows.size(), 2u);
  const AttentionMeasurement& row = bench.rows[0];
  EXPECT_EQ(row.features, 15);
  const double flops = 2 * 12.0 * 32 * 15 * (4 + 12);
  EXPECT_NEAR(row.gflops, flops / row.seconds / 1e9, 1e-6 * row.gflops);
  EXPECT_EQ(bench.ToTable().rows[0][1], "taylor, m = 15");
  EXPECT_NE(bench.ToTable().title.find("d = 4, values of dim 12, m = 8"), std::string::npos);
}

TEST(Sgemm, IsAProductOfMatrices) {
  const Context context({.threads = 2});
  if (!LargeSgemm::Available()) GTEST_SKIP() << "favor was built without oneDNN";
  LargeSgemm sgemm(context);
  sgemm.Run();
  EXPECT_EQ(sgemm.FlopsOfRun(), 2 * 2.0 * 1536 * 1536 * 1536);  // both threads multiply
  constexpr size_t n = LargeSgemm::kSize;
  for (const size_t at : {size_t{0}, n + 3, 700 * n + 11, n * n - 1}) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i)
      sum += static_cast<double>(sgemm.a()[at / n * n + i]) * sgemm.b()[i * n + at % n];
    EXPECT_EQ(sgemm.c()[at], static_cast<float>(sum));  // small whole numbers: exact
  }
  Yardstick yardstick(context);
  EXPECT_FALSE(yardstick.gflops().has_value());
  yardstick.Measure();
  const double first = yardstick.gflops().value();
  EXPECT_GT(first, 0);
  yardstick.Measure();
  EXPECT_GE(yardstick.gflops().value(), first);
}

// [1 2 3; 4 5 6]·[1 0; 2 1; 0 3] = [5 11; 14 23], with either operand stored transposed.
TEST(Sgemm, TakesTransposedOperands) {
  if (!LargeSgemm::Available()) GTEST_SKIP() << "favor was built without oneDNN";
  const float a[] = {1, 2, 3, 4, 5, 6}, a_transposed[] = {1, 4, 2, 5, 3, 6};
  const float b[] = {1, 0, 2, 1, 0, 3}, b_transposed[] = {1, 2, 0, 0, 1, 3};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      float c[4] = {};
      Sgemm({2, 2, 3, transpose_a, transpose_b}, transpose_a ? a_transposed : a,
            transpose_b ? b_transposed : b, c);
      EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{5, 11, 14, 23}));
    }
  }
}

TEST(Sgemm, TextSaysTheRateTheShareOrThatThereIsNone) {
  EXPECT_EQ(YardstickText(291.04), "Large sgemm (oneDNN) in this run: 291.0 GFLOP/s.");
  EXPECT_EQ(ShareText(58.4, 100), "58 %");
  EXPECT_EQ(ShareText(58.4, 200), "29 %");
  EXPECT_NE(YardstickText(std::nullopt).find("without oneDNN"), std::string::npos);
  EXPECT_EQ(ShareText(58.4, std::nullopt), "—");
}

// 3 sequences of 100 tokens in 0.25 s; exact attention takes twice as long.
TEST(Bench, TablesSayTimesInTheirUnits) {
  AttentionBench bench;
  bench.options.batch = 3;
  bench.rows = {{.map = "positive",
                 .projection = "orthogonal",
                 .length = 100,
                 .seconds = 0.25,
                 .gflops = 3,
                 .extra_bytes = 1'500'000},
                {.exact = true, .length = 100, .seconds = 0.5, .gflops = 6}};
  const reports::Table table = bench.ToTable();
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"100", "positive, orthogonal", "250.000",
                                                     "1.2e+03", "3.0", "—", "1.5", "2.00"}));
  EXPECT_EQ(table.rows[1],
            (std::vector<std::string>{"100", "exact", "500.000", "600", "6.0", "—", "—", ""}));
}

// 4 ms per step; 3 MB of weights and 1 MB of states are copied in 1 ms, which is the floor. Eight
// sequences have eight tokens per step.
TEST(GenerateBench, TablesSayTimesInTheirUnits) {
  GenerateBench bench{.threads = 1,
                      .weight_bytes = 3'000'000,
                      .rows = {{.prefix = 100,
                                .read_tokens_per_second = 5000,
                                .seconds = 0.004,
                                .state_bytes = 1'000'000,
                                .copy_seconds = 0.001}}};
  EXPECT_EQ(bench.ToTable().rows[0], (std::vector<std::string>{"100", "5000", "250.0", "4.000",
                                                               "1.000", "1.000", "4.00", "25 %"}));
  EXPECT_NE(bench.ToTable().caption.find("Weights: 3.0 MB."), std::string::npos);
  bench.options.batch = 8;
  EXPECT_EQ(bench.ToTable().rows[0][2], "2000.0");
  EXPECT_EQ(bench.ToTable().rows[0][3], "4.000");
}

// What favor bench prints and writes if it was built without oneDNN.
TEST(Bench, TablesWithoutAYardstickHaveNoShare) {
  AttentionBench bench{.rows = {{.exact = true, .length = 8, .seconds = 1, .gflops = 3}}};
  EXPECT_EQ(bench.ToTable().rows[0][5], "—");
  bench.sgemm_gflops = 4;
  EXPECT_EQ(bench.ToTable().rows[0][5], "75 %");
}

}  // namespace
}  // namespace favor::benchmarks
