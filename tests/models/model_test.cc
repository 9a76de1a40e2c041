// What a model promises: causality, independence of padding, named parameters, refusals.
#include "favor/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <thread>

#include "core/device.h"
#include "core/json.h"
#include "favor/attention.h"
#include "favor/error.h"
#include "models/config_fields.h"
#include "models/network.h"
#include "tests/models/scored_pass.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

// The first loss is that of a guess, ln(vocab), tied or not, whatever the positions and the norm.
TEST(Model, BeginsAtChance) {
  const Context context({.threads = 1});
  for (const Positions positions :
       {Positions::kLearned, Positions::kRotary, Positions::kSinusoidal, Positions::kNone}) {
    for (const Norm norm : {Norm::kPre, Norm::kPost}) {
      for (const bool tied : {true, false}) {
        ModelConfig config;
        config.vocab = 29;
        config.positions = positions;
        config.max_length = 64;
        config.norm = norm;
        config.tied = tied;
        config.features.map = "relu";
        const Model model(config, 3);
        const RandomStream stream(4, "letters");
        Batch batch{.batch = 8, .length = 64};
        for (uint64_t i = 0; i < 8 * 64; ++i) {
          batch.tokens.push_back(static_cast<int32_t>(stream.Uniform(2 * i) * 25));
          batch.targets.push_back(static_cast<int32_t>(stream.Uniform(2 * i + 1) * 25));
        }
        EXPECT_NEAR(model.Evaluate(batch, context).MeanLoss(), std::log(29.0), 0.25)
            << Name(positions) << " " << Name(norm) << (tied ? " tied" : "");
      }
    }
  }
}

TEST(Model, NoTokenSeesTheFuture) {
  const Context context({.threads = 2});
  for (const std::string_view attention : AttentionNames()) {
    for (const Positions positions :
         {Positions::kLearned, Positions::kRotary, Positions::kSinusoidal}) {
      ModelConfig config = SmallConfig();
      config.attention = attention;
      config.positions = positions;
      config.convolution = positions == Positions::kLearned ? 0 : 3;
      Model model(config, 1);
      Batch batch = SmallBatch(config);
      const Tensor before = model.Logits(batch, context);
      batch.tokens[3] = (batch.tokens[3] + 1) % 7;
      const Tensor after = model.Logits(batch, context);
      double moved = 0;
      for (int64_t i = 0; i < 6 * 7; ++i) {
        const double change = std::fabs(before.Data<float>()[i] - after.Data<float>()[i]);
        if (i < 3 * 7) {
          EXPECT_LT(change, 1e-5) << attention << " " << Name(positions) << " " << i;
        } else {
          moved = std::max(moved, change);
        }
      }
      EXPECT_GT(moved, 1e-3);
    }
  }
}

// Padded and unpadded sequences agree, whatever the padding holds.
TEST(Model, PaddingChangesNothing) {
  const Context context({.threads = 1});
  for (const char* attention : {"exact", "linear"}) {
    for (const int64_t classes : {0, 3}) {
      ModelConfig config = SmallConfig(/*causal=*/false);
      config.attention = attention;
      config.classes = classes;
      config.convolution = classes;
      Model model(config, 1);
      Batch shorter{.batch = 1, .length = 4, .tokens = {1, 2, 3, 4}};
      Batch padded{
          .batch = 1, .length = 6, .tokens = {1, 2, 3, 4, 6, 0}, .mask = {1, 1, 1, 1, 0, 0}};
      const Tensor a = model.Logits(shorter, context), b = model.Logits(padded, context);
      const int64_t compared = classes > 0 ? classes : 4 * 7;
      for (int64_t i = 0; i < compared; ++i)
        EXPECT_NEAR(a.Data<float>()[i], b.Data<float>()[i], 1e-5) << attention << " " << i;
    }
  }
}

// One of two layers passes its rows on unchanged: only ω then tells whether the other one is the
// first or the second.
TEST(Model, EveryLayerHasAnOmegaOfItsOwn) {
  const Context context({.threads = 1});
  for (const char* attention : {"linear", "exact"}) {
    ModelConfig config = SmallConfig();
    config.attention = attention;
    const auto logits_with_work_in = [&](int layer) {
      Model model(config, 1);
      const std::string worker = "layers." + std::to_string(layer),
                        idler = "layers." + std::to_string(1 - layer);
      for (const auto& [name, value] : model.Parameters()) {
        // The same weights, whichever layer is active.
        if (name.starts_with(worker)) {
          std::vector<double> drawn(static_cast<size_t>(value.shape().Elements()));
          RandomStream(7, name.substr(worker.size())).FillNormal(0, drawn);
          std::copy(drawn.begin(), drawn.end(), value.Data<float>());
        }
        if (name.starts_with(idler))
          std::fill_n(value.Data<float>(), value.shape().Elements(), 0.0f);
      }
      return model.Logits(SmallBatch(config), context);
    };
    const Tensor first = logits_with_work_in(0), second = logits_with_work_in(1);
    double largest = 0;
    for (int64_t i = 0; i < first.shape().Elements(); ++i) {
      largest =
          std::max<double>(largest, std::fabs(first.Data<float>()[i] - second.Data<float>()[i]));
    }
    if (config.attention == "linear") {
      EXPECT_GT(largest, 1e-2);
    } else {
      EXPECT_EQ(largest, 0);  // the rest of the model is indeed the same
    }
  }
}

TEST(Model, ParametersAreNamedAndCounted) {
  ModelConfig config = SmallConfig();
  Model model(config, 1);
  std::set<std::string> names;
  int64_t count = 0;
  for (const auto& parameter : model.Parameters()) {
    names.insert(parameter.name);
    count += parameter.value.shape().Elements();
  }
  EXPECT_TRUE(names.contains("embedding.weight"));
  EXPECT_TRUE(names.contains("positions.weight"));
  EXPECT_TRUE(names.contains("layers.1.attention.query.weight"));
  EXPECT_TRUE(names.contains("layers.0.feed_forward.down.bias"));
  EXPECT_TRUE(names.contains("norm.weight"));
  EXPECT_FALSE(names.contains("output.weight"));
  EXPECT_EQ(count, model.ParameterCount());
  EXPECT_EQ(count, Summarize(config).parameters);
  int64_t parts = 0;
  for (const auto& part : Summarize(config).parts) parts += part.parameters;
  EXPECT_EQ(parts, count);
  config.tied = false;
  EXPECT_EQ(Summarize(config).parameters, count + 7 * 8);
}

TEST(Model, AnswersSeveralThreadsAtOnce) {
  ModelConfig config = SmallConfig();
  config.positions = Positions::kRotary;
  const Model model(config, 1);
  const auto losses = [&](int64_t batch) {
    const Context context({.threads = 1});
    std::vector<double> all;
    for (int64_t length = 1; length < 40; ++length)
      all.push_back(model.Evaluate(SmallBatch(config, batch, length), context).loss);
    return all;
  };
  const std::vector<double> one = losses(1), two = losses(2);
  std::vector<double> one_again;
  std::thread other([&] { one_again = losses(1); });
  EXPECT_EQ(losses(2), two);
  other.join();
  EXPECT_EQ(one_again, one);
}

// Sizes of the paper (A.1).
TEST(Model, PresetsHaveTheSizesOfThePaper) {
  const auto expect = [](const char* name, int64_t heads, int64_t layers, int64_t ff,
                         int64_t width) {
    const ModelConfig config = Preset(name);
    EXPECT_EQ(config.heads, heads);
    EXPECT_EQ(config.layers, layers);
    EXPECT_EQ(config.ff, ff);
    EXPECT_EQ(config.width, width);
    EXPECT_EQ(config.features.features, 256);
  };
  expect("small", 1, 6, 64, 64);
  expect("regular", 8, 6, 2048, 512);
  expect("protein", 8, 36, 1024, 512);
  EXPECT_EQ(PresetNames().size(), 4u);
  // tiny is what a config begins with.
  EXPECT_EQ(models::ToJson(Preset("tiny")), models::ToJson({}));
  try {
    Preset("regullar");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "preset: unknown name 'regullar' (did you mean 'regular'?)");
  }
}

// Unless it is given, the A of oprf is that of queries and keys of variance 1, by the dim of a
// head.
TEST(Model, TheAOfOprfFollowsFromTheDim) {
  const Context context({.threads = 1});
  ModelConfig config = SmallConfig(), given = SmallConfig();  // 2 heads of dim 4
  config.features.map = given.features.map = "oprf";
  given.features.oprf_a = {OptimalOprfA(2 * std::sqrt(4.0), 4)};
  const Batch batch = SmallBatch(config);
  const Tensor logits = Model(config, 1).Logits(batch, context),
               expected = Model(given, 1).Logits(batch, context);
  for (int64_t i = 0; i < logits.shape().Elements(); ++i)
    ASSERT_EQ(logits.Data<float>()[i], expected.Data<float>()[i]) << i;
}

// What runs on the CPU only is refused before anything is allocated.
TEST(Model, RefusesWhatDoesNotRunOnAGpu) {
  const auto refused = [](const std::function<void(ModelConfig&)>& change,
                          const std::string& message) {
    ModelConfig config = SmallConfig();
    change(config);
    try {
      EstimateMemory(config, {.placement = {.device = {.type = DeviceType::kCuda}}});
      FAIL() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      EXPECT_EQ(error.what(), message);
    }
  };
  refused([](ModelConfig& c) { c.feed_forward = FeedForwardKind::kLinearised; },
          "feed_forward: given linearised on cuda:0, it runs on the cpu only");
  for (const char* kind : {"uniform", "window", "hybrid"})
    refused([&](ModelConfig& c) { c.attention = kind; },
            std::string("attention: given ") + kind + " on cuda:0, it runs on the cpu only");
  refused([](ModelConfig& c) { c.features.map = "poly-sketch"; },
          "map: given poly-sketch on cuda:0, it runs on the cpu only");
  refused([](ModelConfig& c) { c.width = 600, c.heads = 2; },
          "heads: given heads of dim 300 on cuda:0, expected at most 256");
  refused([](ModelConfig& c) { c.features.features = 4000; },
          "features: given 4000 of a head on cuda:0, expected at most 2048");
  refused([](ModelConfig& c) { c.heads_of = "relu:1,uniform:1"; },
          "attention: given uniform on cuda:0, it runs on the cpu only");
}

void ExpectRefused(const ModelConfig& config, const std::string& says) {
  try {
    Model(config, 1);
    FAIL() << says;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

// Blocks whose weights are 0 pass rows on as they are. The table's rows are (1, 3) and (2, 0); the
// first position's is (0, 1). Rows are read times the scale; a norm leaves ±h/√(h² + ε) of a row
// whose halved difference is h; logits are products with the table again.
TEST(Model, TiedLogitsByHand) {
  const Context context({.threads = 1});
  const auto expect = [&](const ModelConfig& config, double scale) {
    Model model(config, 1);
    for (const Model::NamedParameter& parameter : model.Parameters()) {
      const bool gain = parameter.name.ends_with("norm.weight");
      float* values = parameter.value.Data<float>();
      std::fill_n(values, parameter.value.shape().Elements(), gain ? 1.0f : 0.0f);
      if (parameter.name == "embedding.weight") std::ranges::copy(std::array{1, 3, 2, 0}, values);
      if (parameter.name == "positions.weight") std::ranges::copy(std::array{0, 1}, values);
    }
    const Tensor logits =
        model.Logits({.batch = 1, .length = 1, .tokens = {0}, .targets = {0}, .mask = {}}, context);
    double unit = scale * (config.positions == Positions::kLearned ? 4 - 1 : 3 - 1) / 2;
    // Post-norm has two norms per layer, pre-norm one after all layers.
    for (int i = 0; i < (config.norm == Norm::kPost ? 2 : 1); ++i)
      unit /= std::sqrt(unit * unit + config.norm_epsilon);
    EXPECT_NEAR(logits.Data<float>()[0], -1 * unit + 3 * unit, 1e-6);
    EXPECT_NEAR(logits.Data<float>()[1], -2 * unit, 1e-6);
  };
  for (const Norm norm : {Norm::kPre, Norm::kPost}) {
    for (const Positions positions : {Positions::kNone, Positions::kLearned}) {
      SCOPED_TRACE(std::string(Name(norm)) + " " + std::string(Name(positions)));
      ModelConfig config;
      config.vocab = config.width = 2;
      config.heads = config.layers = config.max_length = 1;
      config.ff = 3;
      config.attention = "identity";
      config.positions = positions;
      config.norm = norm;
      config.norm_epsilon = 0.75;
      expect(config, std::sqrt(2));
      for (const double scale : {1.0, 0.5}) {
        config.embedding_scale = scale;
        expect(config, scale);
      }
    }
  }
}

TEST(Model, RefusesConfigsThatCannotBe) {
  const auto with = [](const auto& change) {
    ModelConfig config = SmallConfig();
    change(config);
    return config;
  };
  ExpectRefused(with([](auto& c) { c.width = 9; }), "a multiple");
  ExpectRefused(with([](auto& c) { c.heads = 4, c.kv_heads = 3; }), "a divisor");
  ExpectRefused(with([](auto& c) { c.vocab = 0; }), "vocab");
  ExpectRefused(with([](auto& c) { c.max_length = 0; }), "max_length");
  ExpectRefused(with([](auto& c) { c.attention = "softmax"; }), "attention");
  ExpectRefused(with([](auto& c) { c.attention = "linaer"; }), "did you mean 'linear'");
  ExpectRefused(with([](auto& c) { c.features.map = "positiv"; }), "did you mean 'positive'");
  ExpectRefused(with([](auto& c) { c.positions = Positions::kRotary, c.width = 6; }), "even");
  ExpectRefused(
      with([](auto& c) { c.positions = Positions::kSinusoidal, c.width = 9, c.heads = 1; }),
      "even");
  ExpectRefused(with([](auto& c) { c.norm_epsilon = 0; }), "norm_epsilon: given 0, expected 1e-30");
  ExpectRefused(with([](auto& c) { c.norm_epsilon = std::nan(""); }), "norm_epsilon");
  ExpectRefused(with([](auto& c) { c.embedding_scale = -1; }), "embedding_scale: given -1");
}

TEST(CudaModel, RefusesAContextOnAnotherDevice) {
  if (ListGpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Context gpu({.device = {.type = DeviceType::kCuda}});
  const Model model(SmallConfig(), 1);
  try {
    model.Evaluate(SmallBatch(model.config()), gpu);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "context: given one on cuda:0, but the model is on cpu");
  }
}

TEST(Model, RefusesBatchesThatDoNotFit) {
  const Context context({.threads = 1});
  Model model(SmallConfig(), 1);
  const auto refused = [&](const Batch& batch, const std::string& says) {
    try {
      model.Evaluate(batch, context);
      FAIL() << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  Batch batch = SmallBatch(model.config());
  batch.tokens[2] = 7;
  refused(batch, "the token 7");
  batch = SmallBatch(model.config());
  batch.targets[2] = 9;
  refused(batch, "the target 9");
  batch.targets.pop_back();
  refused(batch, "targets");
  batch.tokens.pop_back();
  refused(batch, "tokens");
  refused(SmallBatch(model.config(), 1, 7), "learned positions");
}

// With 5,000 tokens logits exist for 256 rows at a time: 300 targets are two pieces, and each keeps
// its own loss, whether every row has a target or only some.
class ModelLosses : public testing::TestWithParam<bool> {};

TEST_P(ModelLosses, OfMoreTargetsThanLogitsExistAtOnce) {
  const bool every_row = GetParam();
  ModelConfig config = SmallConfig();
  config.vocab = 5000;
  config.max_length = 110;
  Model model(config, 3);
  for (const Model::NamedParameter& parameter : model.Parameters()) {  // not at chance any more
    if (parameter.name != "norm.weight") continue;
    std::fill_n(parameter.value.Data<float>(), config.width, 3.0f);
  }
  Batch batch = SmallBatch(config, 4, 110);
  for (int32_t& target : batch.targets) {
    if (every_row) target = std::max(target, 0);
  }
  const Context context({.threads = 2});
  const std::vector<double> losses = model.Losses(batch, context);
  const Tensor logits = model.Logits(batch, context);
  ASSERT_EQ(losses.size(), batch.targets.size());
  double sum = 0;
  int64_t targets = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (batch.targets[i] == kNoTarget) {
      EXPECT_EQ(losses[i], 0);
      continue;
    }
    const float* row = logits.Data<float>() + i * 5000;
    double total = 0;
    for (int64_t j = 0; j < 5000; ++j) total += std::exp(static_cast<double>(row[j]));
    EXPECT_NEAR(losses[i], std::log(total) - static_cast<double>(row[batch.targets[i]]), 1e-4) << i;
    sum += losses[i];
    ++targets;
  }
  EXPECT_EQ(targets, every_row ? 440 : 352);
  const Score score = model.Evaluate(batch, context);
  EXPECT_EQ(score.count, targets);
  EXPECT_NEAR(score.loss, sum, 1e-6 * sum);
}

INSTANTIATE_TEST_SUITE_P(Rows, ModelLosses, testing::Bool(), [](const auto& test) {
  return test.param ? "AllHaveTargets" : "SomeHaveTargets";
});

}  // namespace
}  // namespace favor
