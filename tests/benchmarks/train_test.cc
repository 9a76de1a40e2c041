#include "benchmarks/train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "benchmarks/sgemm.h"
#include "tests/models/small_models.h"

namespace favor::benchmarks {
namespace {

ModelConfig SmallModel() {
  ModelConfig model = SmallConfig();
  model.vocab = 11;
  model.kv_heads = 1;
  model.layers = 3;
  model.features.features = 16;
  model.max_length = 64;
  return model;
}

TEST(TrainBench, CountsOperations) {
  ModelConfig model = SmallModel();
  // Query and output 8·8, key and value 4·8, feed-forward 2·8·12; output weights 11·8.
  const double multiplied = 3 * (2 * 64 + 2 * 32 + 2 * 96) + 88;
  const double linear = 3 * 24.0 * (2 * 2) * 10 * 16 * 4;  // layers, batch·heads, L·m·d
  EXPECT_EQ(CountedTrainFlops(model, 2, 10), 6 * multiplied * 20 + linear);
  model.attention = "exact";
  EXPECT_EQ(CountedTrainFlops(model, 2, 10), 6 * multiplied * 20 + 3 * 7.0 * 4 * 10 * 10 * 4);
  // Without queries (8·8) and keys (4·8).
  for (const char* kind : {"identity", "uniform"}) {
    model.attention = kind;
    EXPECT_EQ(CountedTrainFlops(model, 2, 10), 6 * (multiplied - 3 * (64 + 32)) * 20);
  }
}

// What is counted is what runs: an encoder with --no-causal.
TEST(TrainBench, MeasuresEncodersToo) {
  const Context context({.threads = 1});
  ModelConfig model = SmallModel();
  model.causal = false;
  model.attention = "exact";
  const TrainBench bench =
      RunTrainBench({.model = model, .lengths = {16}, .rounds = 1, .quiet = true}, context);
  EXPECT_EQ(bench.rows.size(), 1u);
}

TEST(TrainBench, MeasuresEveryLength) {
  const Context context({.threads = 1});
  const TrainBench bench = RunTrainBench(
      {.model = SmallModel(), .lengths = {64, 32}, .batch = 2, .rounds = 1, .quiet = true},
      context);
  EXPECT_EQ(bench.sgemm_gflops.has_value(), LargeSgemm::Available());
  ASSERT_EQ(bench.rows.size(), 2u);
  EXPECT_EQ(bench.rows[0].length, 32);
  for (const TrainMeasurement& row : bench.rows) {
    EXPECT_EQ(row.tokens, 2 * row.length);
    EXPECT_TRUE(std::isfinite(row.seconds) && row.seconds > 0);
    EXPECT_GT(row.planned_bytes, 0);
    const auto& [products, attention, norms, optimizer, rest] = row.shares;
    for (const double share : {products, attention, norms, optimizer, rest}) EXPECT_GT(share, 0);
    EXPECT_NEAR(products + attention + norms + optimizer + rest, 1, 1e-9);
    EXPECT_NEAR(row.gflops, CountedTrainFlops(SmallModel(), 2, row.length) / row.seconds / 1e9,
                1e-6 * row.gflops);
  }
  EXPECT_EQ(bench.ToTable().rows.size(), 2u);
}

TEST(TrainBench, ListsTheOperationsOfAStep) {
  const Context context({.threads = 1});
  const TrainBench bench = RunTrainBench(
      {.model = SmallModel(), .lengths = {32}, .batch = 2, .rounds = 1, .quiet = true}, context);
  const TrainMeasurement& row = bench.rows[0];
  double seconds = 0;
  int64_t outputs = 0, others = 0;  // gradients of weights from 64 tokens
  for (const OperationTime& operation : row.operations) {
    seconds += operation.seconds;
    if (operation.detail == "8 × 64 × 8") outputs += operation.calls;
    if (operation.detail == "16 × 64 × 8") others += operation.calls;
  }
  EXPECT_LT(seconds, row.timed_seconds);
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(outputs, 3);  // one in each layer
  EXPECT_EQ(others, 3);   // of queries, keys and values
  EXPECT_TRUE(std::ranges::is_sorted(row.operations, std::greater(), &OperationTime::seconds));
}

TEST(TrainBench, SharesAndTablesOfOperations) {
  TrainMeasurement row{.length = 8, .tokens = 8, .seconds = 1, .timed_seconds = 2};
  row.operations = {{"linear attention", "gradients", 4, 0.5},
                    {"matmul", "2 × 3 × 4", 2, 0.25},
                    {"matmul", "", 1, 0.125},
                    {"AdamW", "", 1, 0.0625},
                    {"layer norm", "", 1, 0.0625},
                    {"dropout", "", 1, 0.5}};
  const auto [products, attention, norms, optimizer, rest] =
      SharesOf(row.operations, row.timed_seconds);
  EXPECT_EQ(products, 0.1875);
  EXPECT_EQ(attention, 0.25);
  EXPECT_EQ(norms, 0.03125);
  EXPECT_EQ(optimizer, 0.03125);
  EXPECT_EQ(rest, 0.5);
  const reports::Table table = TrainBench{.rows = {row}}.OperationsOf(row);
  ASSERT_EQ(table.rows.size(), 7u);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"linear attention: gradients", "4", "500.000",
                                                     "125000.0", "25.0 %"}));
  EXPECT_EQ(table.rows[2][0], "matmul");
  EXPECT_EQ(table.rows[6], (std::vector<std::string>{"rest", "", "500.000", "", "25.0 %"}));
}

TEST(TrainBench, SharesAreOfTheYardstick) {
  TrainBench bench{.rows = {{.length = 8, .tokens = 8, .seconds = 1, .gflops = 3}}};
  bench.rows[0].shares = {
      .products = 0.5, .attention = 0.25, .norms = 0.125, .optimizer = 0.1, .rest = 0.025};
  bench.rows[0].tokens = 16;  // two sequences
  const std::vector<std::string> row = bench.ToTable().rows[0];
  EXPECT_EQ(std::vector(row.begin(), row.begin() + 5),
            (std::vector<std::string>{"8", "1.000", "62500.0", "16", "3.0"}));
  EXPECT_EQ(std::vector(row.end() - 5, row.end()),
            (std::vector<std::string>{"50 %", "25 %", "12 %", "10 %", "2 %"}));
  EXPECT_EQ(bench.ToTable().rows[0][5], "—");
  bench.sgemm_gflops = 4;
  EXPECT_EQ(bench.ToTable().rows[0][5], "75 %");
}

}  // namespace
}  // namespace favor::benchmarks
