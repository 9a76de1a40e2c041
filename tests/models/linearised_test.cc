// Models with linearised feed-forward layers: their config, parameters and memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/json.h"
#include "favor/error.h"
#include "favor/model.h"
#include "models/config_fields.h"
#include "models/feed_forward.h"
#include "models/network.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

ModelConfig LinearisedConfig() {
  ModelConfig config = SmallConfig();
  config.attention = "exact";
  config.feed_forward = FeedForwardKind::kLinearised;
  config.linearised.columns = 32;
  return config;
}

TEST(LinearisedModel, HasTheParametersOfADenseOne) {
  ModelConfig dense = LinearisedConfig();
  dense.feed_forward = FeedForwardKind::kDense;
  dense.linearised = {};
  const auto a = models::Network::Make(dense, {.seed = 3}),
             b = models::Network::Make(LinearisedConfig(), {.seed = 3});
  ASSERT_EQ(a->parameters().all().size(), b->parameters().all().size());
  for (size_t i = 0; i < a->parameters().all().size(); ++i) {
    const layers::Parameter &x = *a->parameters().all()[i], &y = *b->parameters().all()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_EQ(
        std::memcmp(x.value.data(), y.value.data(), static_cast<size_t>(4 * x.shape.Elements())), 0)
        << x.name;
  }
  // Curves of their own: (degree + 1)·ff numbers more in each layer.
  ModelConfig own = LinearisedConfig();
  own.linearised.own_curves = true;
  EXPECT_EQ(Summarize(own).parameters, Summarize(dense).parameters + 2 * 3 * own.ff);
  EXPECT_EQ(Summarize(own).parts.size(), Summarize(dense).parts.size());
}

// Sketches are drawn from the seed alone: what the weights were learned with stays.
TEST(LinearisedModel, KeepsItsSketchesWhenOmegaIsRedrawn) {
  const Context context({.threads = 1});
  const ModelConfig config = LinearisedConfig();
  const Batch batch = SmallBatch(config);
  const auto network = models::Network::Make(config, {.seed = 3});
  const auto logits = [&] {
    models::PassBuffers buffers = network->MakeBuffers();
    Tally tally = network->MakeTally(context);
    const Tensor found = network->Logits(batch, {.context = context, .tally = &tally}, buffers);
    return std::vector<float>(found.Data<float>(), found.Data<float>() + found.shape().Elements());
  };
  const std::vector<float> first = logits();
  network->Redraw(1);
  EXPECT_EQ(logits(), first);
  network->Redraw(4, 0);
  EXPECT_NE(logits(), first);
}

// Exact squares of degree 2 and a range that all arguments are in: the outputs are nearly those of
// the dense model.
TEST(LinearisedModel, IsNearTheDenseOneIfItsPolynomialIs) {
  const Context context({.threads = 1});
  ModelConfig dense = SmallConfig(), linearised = SmallConfig();
  linearised.feed_forward = FeedForwardKind::kLinearised;
  linearised.linearised = {.degree = 2, .columns = 0, .range = 3, .exact_quadratic = true};
  ModelConfig line = linearised;
  line.linearised = {.degree = 1, .columns = 0, .range = 3};
  const Batch batch = SmallBatch(dense);
  const Model a(dense, 3), b(linearised, 3), c(line, 3);
  const Tensor x = a.Logits(batch, context), y = b.Logits(batch, context),
               z = c.Logits(batch, context);
  double error = 0, straight = 0;
  for (int64_t i = 0; i < x.shape().Elements(); ++i) {
    error += std::pow(x.Data<float>()[i] - y.Data<float>()[i], 2);
    straight += std::pow(x.Data<float>()[i] - z.Data<float>()[i], 2);
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.1 * straight);
}

TEST(LinearisedModel, ConfigsThatDoNotUseItStayAsTheyAre) {
  const Json json = models::ToJson(SmallConfig());
  for (const char* key : {"feed_forward", "ff_degree", "ff_columns", "ff_range", "ff_fit",
                          "ff_exact_quadratic", "ff_own_curves"})
    EXPECT_FALSE(json.contains(key)) << key;
  ModelConfig config = LinearisedConfig(), read;
  config.linearised = {.degree = 3,
                       .columns = 77,
                       .range = 2.5,
                       .fit = Fit::kChebyshev,
                       .exact_quadratic = true,
                       .own_curves = true};
  FieldsFromJson("test", models::ToJson(config), models::ConfigFields(read));
  EXPECT_EQ(read.feed_forward, FeedForwardKind::kLinearised);
  EXPECT_EQ(read.linearised, config.linearised);
}

TEST(LinearisedModel, RefusesWhatCannotBe) {
  const auto refused = [](const auto& change, const std::string& says) {
    ModelConfig config = LinearisedConfig();
    change(config);
    try {
      CheckConfig(config);
      ADD_FAILURE() << "accepted: " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  refused([](ModelConfig& c) { c.feed_forward = FeedForwardKind::kDense; },
          "expected 'linearised'");
  refused([](ModelConfig& c) { c.linearised.degree = 0; }, "given degree 0");
  refused([](ModelConfig& c) { c.linearised.degree = 17; }, "given degree 17");
  refused([](ModelConfig& c) { c.linearised = {.degree = 6, .columns = 2}; },
          "given 2 columns for 3 random degrees");
  refused([](ModelConfig& c) { c.linearised.range = 0; }, "expected low < high");
  refused([](ModelConfig& c) { c.linearised = {.degree = 1, .exact_quadratic = true}; },
          "expected degree 2 or more");
  refused(
      [](ModelConfig& c) {
        c.width = 512;
        c.linearised = {.degree = 2, .exact_quadratic = true};
      },
      "which takes 131841 columns");
}

// By hand, in numbers that are whole multiples of the arena's alignment. Without training one set
// of buffers serves all layers; dense layers take two arrays [tokens, ff].
TEST(LinearisedModel, TakesTheMemoryOfItsColumns) {
  ModelConfig dense = SmallConfig();
  dense.width = 31;
  dense.heads = 1;
  dense.ff = 64;
  dense.max_length = 64;
  dense.attention = "identity";
  ModelConfig linearised = dense;
  linearised.feed_forward = FeedForwardKind::kLinearised;
  linearised.linearised.columns = 48;
  const auto activations = [](const ModelConfig& config) {
    return EstimateMemory(config, {.batch = 2, .length = 64, .training = false}).activations / 4;
  };
  constexpr int64_t kTokens = 128, kColumns = 32 + 48, kBias = 32;
  const int64_t folded = 31 * 32 + 31 * 48;
  EXPECT_EQ(activations(linearised) - activations(dense),
            kBias + 2 * 64 * kColumns + folded + kTokens * kColumns - 2 * kTokens * 64);
  EXPECT_EQ(models::FeedForwardText(linearised), "linearised feed-forward (degree 2, 81 columns)");
}

}  // namespace
}  // namespace favor
