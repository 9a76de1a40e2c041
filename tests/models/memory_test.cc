// What is known of a model's memory before there is one.
#include <gtest/gtest.h>

#include "models/network.h"
#include "tests/models/scored_pass.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

TEST(Model, CountingMemoryLeavesPassesAlone) {
  const Context context({.threads = 1});
  const auto network = models::Network::Make(SmallConfig(), {.seed = 1});
  const Batch batch = SmallBatch(SmallConfig());
  models::PassBuffers buffers = network->MakeBuffers();
  const double loss = Evaluated(*network, batch, {.context = context}, buffers).loss;
  const models::Transformer::Shape shape{.batch = 2, .length = 6};
  EXPECT_EQ(network->BufferBytes(shape), buffers.arena.Bytes());
  EXPECT_EQ(network->BufferBytes(shape), network->BufferBytes(shape));
  EXPECT_EQ(buffers.activations.shape, shape);
  EXPECT_EQ(Evaluated(*network, batch, {.context = context}, buffers).loss, loss);
}

TEST(Model, MemoryIsLinearInLengthAndLessWithRecomputing) {
  ModelConfig config = SmallConfig();
  config.max_length = 1 << 20;
  const auto plan = [&](int64_t length, bool recompute) {
    return EstimateMemory(config, {.length = length, .recompute = recompute}).activations;
  };
  const auto growth = static_cast<double>(plan(65536, false) - plan(32768, false)) /
                      static_cast<double>(plan(32768, false) - plan(16384, false));
  EXPECT_NEAR(growth, 2, 0.01);
  config.layers = 8;
  EXPECT_LT(plan(4096, true), plan(4096, false) / 2);
}

// Four bytes of each parameter, as many for its gradient, twice as many for AdamW's two moments.
// Attention keeps eight bytes per query head and token, and encoders a state of doubles per query
// head: m maxima, m sums and m · dim sums of values.
TEST(Model, MemoryByHand) {
  ModelConfig config = SmallConfig(/*causal=*/false);  // 2 layers, 2 heads of dim 4, 8 features
  config.kv_heads = 1;
  const int64_t parameters = 4 * Summarize(config).parameters;
  const MemoryEstimate training = EstimateMemory(config, {.batch = 3, .length = 6}),
                       evaluation =
                           EstimateMemory(config, {.batch = 3, .length = 6, .training = false});
  EXPECT_EQ(training.parameters, parameters);
  EXPECT_EQ(training.gradients, parameters);
  EXPECT_EQ(training.optimizer, 2 * parameters);
  EXPECT_EQ(training.attention, 2 * 3 * 2 * (8 * 6 + 8 * 8 * (4 + 2)));
  EXPECT_EQ(evaluation.parameters, parameters);
  EXPECT_EQ(evaluation.gradients + evaluation.optimizer + evaluation.attention, 0);
}

// In bf16 passes read two bytes more of each parameter, and write half as much; on a GPU attention
// keeps four bytes per query head and token. No GPU is needed to know.
TEST(Model, MemoryOnAGpuByHand) {
  ModelConfig config = SmallConfig(/*causal=*/false);
  config.kv_heads = 1;
  const int64_t count = Summarize(config).parameters;
  const auto plan = [&](DataType pass_type) {
    return EstimateMemory(
        config, {.batch = 3,
                 .length = 6,
                 .placement = {.device = {.type = DeviceType::kCuda}, .pass_type = pass_type}});
  };
  const MemoryEstimate narrow = plan(DataType::kBF16), wide = plan(DataType::kF32),
                       here = EstimateMemory(config, {.batch = 3, .length = 6});
  EXPECT_EQ(narrow.parameters, 6 * count);
  EXPECT_EQ(wide.parameters, 4 * count);
  EXPECT_EQ(narrow.gradients, 4 * count);
  EXPECT_EQ(narrow.optimizer, 8 * count);
  EXPECT_EQ(narrow.attention, 2 * 3 * 2 * (4 * 6 + 8 * 8 * (4 + 2)));
  EXPECT_EQ(wide.activations, here.activations);
  const double share =
      static_cast<double>(narrow.activations) / static_cast<double>(wide.activations);
  EXPECT_GT(share, 0.5);
  EXPECT_LT(share, 0.7);  // means, and gaps between small arrays
}

// Causal attention of bf16 also keeps f32 states before the segments of each head: six heads can
// have 22 segments, and 200 rows make 4 of 64. Of one segment nothing is kept.
TEST(Model, MemoryOnAGpuHoldsStatesOfSegments) {
  ModelConfig config = SmallConfig();
  config.width = 16;  // 2 heads of dim 8
  config.max_length = 200;
  config.features.omega_type = OmegaType::kBF16;
  const auto plan = [&](int64_t length, DataType pass_type, bool recompute = false) {
    return EstimateMemory(config, {.batch = 3,
                                   .length = length,
                                   .recompute = recompute,
                                   .placement = {.device = {.type = DeviceType::kCuda},
                                                 .pass_type = pass_type}})
        .attention;
  };
  const int64_t log_sums = 3 * 2 * 4 * 200, states = 4 * (3 * 2 * 4) * (8 * (8 + 2) + 1);
  EXPECT_EQ(plan(200, DataType::kBF16), 2 * (log_sums + states));
  EXPECT_EQ(plan(200, DataType::kBF16, /*recompute=*/true), log_sums + states);
  EXPECT_EQ(plan(200, DataType::kF32), 2 * log_sums);
  EXPECT_EQ(plan(64, DataType::kBF16), 2 * 3 * 2 * 4 * 64);
  config.kv_heads = 1;
  EXPECT_EQ(plan(200, DataType::kBF16), 2 * log_sums);
}

}  // namespace
}  // namespace favor
