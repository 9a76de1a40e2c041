#include "reports/memory_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/parameter.h"
#include "models/network.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

TEST(MemoryTable, ShowsWhatHeadsRemember) {
  const reports::Table table =
      reports::MemoryTable({{16.04, std::nullopt}, {std::nullopt, 1234.4}});
  EXPECT_EQ(table.columns, (std::vector<std::string>{"layer", "head 1", "head 2"}));
  EXPECT_EQ(table.rows,
            (std::vector<std::vector<std::string>>{{"1", "16", "all"}, {"2", "all", "1234"}}));
  EXPECT_TRUE(reports::MemoryTable({{std::nullopt}, {std::nullopt}}).rows.empty());
}

// 1 + e^b of the bias of each head, in the order of heads; what they begin with without a model.
TEST(MemoryTable, ReadsTheBiasOfEachHead) {
  ModelConfig config = DecoderConfig();
  config.heads_of = "taylor:1:dim=4,relu:3:decay=token";
  const models::HeadMemories first = models::MemoriesOf(config, nullptr);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(first[1].size(), 4u);
  EXPECT_FALSE(first[1][0]);
  EXPECT_NEAR(*first[1][1], 64, 1e-9);
  EXPECT_NEAR(*first[1][3], 1024, 1e-9);
  const auto network = models::Network::Make(config, {.seed = 1});
  for (const auto& parameter : network->parameters().all()) {
    if (parameter->name != "layers.1.attention.decay.bias") continue;
    for (int64_t head = 0; head < 3; ++head)
      parameter->value.Data<float>()[head] = static_cast<float>(head + 1);
  }
  const models::HeadMemories learned = models::MemoriesOf(config, &network->parameters());
  EXPECT_NEAR(*learned[0][1], 64, 1e-3);
  for (size_t head = 1; head < 4; ++head)
    EXPECT_NEAR(*learned[1][head], 1 + std::exp(static_cast<double>(head)), 1e-5);
}

}  // namespace
}  // namespace favor
