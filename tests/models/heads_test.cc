// Heads of several kinds, heads that forget, and layers of exact attention: what a config says, and
// that decoding and files follow it.
#include "models/heads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/json.h"
#include "favor/error.h"
#include "favor/generate.h"
#include "models/config_fields.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

TEST(Heads, MemoriesAreSpreadOverTheHeadsOfALayer) {
  ModelConfig config = DecoderConfig();  // 4 heads
  config.decay = Decay::kToken;
  const layers::AttentionShape all = models::AttentionShapeOf(config, 0);
  ASSERT_EQ(all.memories.size(), 4u);
  for (size_t head = 0; head < 4; ++head)
    EXPECT_NEAR(all.memories[head], std::vector<double>({16, 64, 256, 1024})[head], 1e-9);
  EXPECT_TRUE(all.decay_per_token);
  // σ(b) = 1 − 1/memory, and tokens do not matter at first.
  Model model(config, 1);
  int found = 0;
  for (const Model::NamedParameter& parameter : model.Parameters()) {
    if (parameter.name == "layers.1.attention.decay.bias") {
      ++found;
      for (int64_t head = 0; head < 4; ++head) {
        EXPECT_NEAR(1 + std::exp(parameter.value.Data<float>()[head]),
                    all.memories[static_cast<size_t>(head)], 1e-3);
      }
    }
    if (parameter.name == "layers.1.attention.decay.weight") {
      ++found;
      EXPECT_EQ(parameter.value.shape(), (Shape{4, 32}));
      for (int64_t i = 0; i < 4 * 32; ++i) EXPECT_EQ(parameter.value.Data<float>()[i], 0);
    }
  }
  EXPECT_EQ(found, 2);
  config.heads_of = "taylor:2:dim=4:decay=none,relu:2";
  const layers::AttentionShape half = models::AttentionShapeOf(config, 0);
  ASSERT_EQ(half.memories.size(), 2u);
  EXPECT_NEAR(half.memories[0], 256, 1e-9);  // the third and fourth head
  EXPECT_NEAR(half.memories[1], 1024, 1e-9);
  config.heads_of = "";
  config.heads = config.kv_heads = 1;
  EXPECT_NEAR(models::AttentionShapeOf(config, 0).memories[0], 128, 1e-9);
}

TEST(Heads, EntriesSayWhatGroupsAre) {
  ModelConfig config = DecoderConfig();
  config.heads_of = "relu:1:features=7:decay=fixed,taylor:2:dim=3,exact:1";
  config.exact_every = 2;
  const auto heads = models::HeadsOf(config, 0);
  ASSERT_EQ(heads.size(), 3u);
  EXPECT_EQ(heads[0].features.map, "relu");
  EXPECT_EQ(heads[0].features.features, 7);
  EXPECT_EQ(heads[0].decay, Decay::kFixed);
  EXPECT_EQ(heads[1].heads, 2);
  EXPECT_EQ(heads[1].feature_dim, 3);
  EXPECT_EQ(heads[1].decay, Decay::kNone);
  EXPECT_EQ(heads[2].attention, "exact");
  ASSERT_EQ(models::HeadsOf(config, 1).size(), 1u);
  EXPECT_EQ(models::HeadsOf(config, 1)[0].attention, "exact");
  EXPECT_EQ(models::HeadsOf(config, 1)[0].heads, 4);
  EXPECT_EQ(models::HeadsOf(config, 2).size(), 3u);
  EXPECT_FALSE(models::AttentionShapeOf(config, 0).decay_per_token);
  EXPECT_EQ(models::AttentionText(config),
            "1 × linear (relu, 7 features, fixed decay), 2 × linear (taylor, 3 dims), 1 × exact "
            "attention, exact in layer 2");
  EXPECT_EQ(models::AttentionText(DecoderConfig()), "linear attention (positive, 24 features)");
}

// Entries begin with what the config says of such heads.
TEST(Heads, EntriesInherit) {
  ModelConfig config = DecoderConfig();
  config.features.map = "oprf";
  config.feature_dim = 4;
  config.decay = Decay::kToken;
  config.kind_options = {{"window", 9}};
  config.heads_of = "oprf:1,relu:1:dim=2:decay=none,exact-window:2";
  CheckConfig(config);
  const layers::AttentionShape shape = models::AttentionShapeOf(config, 0);
  ASSERT_EQ(shape.groups.size(), 3u);
  EXPECT_EQ(shape.groups[0].feature_dim, 4);
  EXPECT_TRUE(shape.groups[0].Forgets());
  // A of the dim that attention sees.
  ASSERT_EQ(shape.groups[0].options.features.oprf_a.size(), 1u);
  EXPECT_EQ(shape.groups[0].options.features.oprf_a[0], OptimalOprfA(2 * std::sqrt(4.0), 4));
  EXPECT_EQ(shape.groups[1].feature_dim, 2);
  EXPECT_FALSE(shape.groups[1].Forgets());
  EXPECT_EQ(shape.groups[2].feature_dim, 0);
  EXPECT_FALSE(shape.groups[2].Forgets());
  EXPECT_EQ(shape.groups[2].options.kind_options, (KindOptions{{"window", 9}}));
}

TEST(Heads, RefusesWhatCannotBeBuilt) {
  const auto refused = [](const auto& change) {
    ModelConfig config = DecoderConfig();
    change(config);
    try {
      CheckConfig(config);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto entries = [&](const char* text) {
    return refused([&](ModelConfig& c) { c.heads_of = text; });
  };
  EXPECT_EQ(entries("relu:2,exact:2"), "accepted");
  EXPECT_NE(entries("relu:2").find("2 heads in all, expected 4"), std::string::npos);
  EXPECT_NE(entries("softmax:4").find("given 'softmax'"), std::string::npos);
  EXPECT_NE(entries("linear:4").find("given 'linear'"), std::string::npos);
  EXPECT_NE(entries("relu").find("expected NAME:HEADS"), std::string::npos);
  EXPECT_NE(entries("relu:four").find("expected a number from 1 to 4"), std::string::npos);
  EXPECT_NE(entries("relu:0,relu:4").find("expected a number"), std::string::npos);
  EXPECT_NE(entries("relu:4:dim=9").find("expected a number from 1 to 8"), std::string::npos);
  EXPECT_NE(entries("relu:4:width=9").find("expected features=N"), std::string::npos);
  EXPECT_NE(entries("relu:4:decay=slow").find("slow"), std::string::npos);
  EXPECT_NE(entries("exact:4:decay=token").find("for exact attention"), std::string::npos);
  EXPECT_NE(entries("relu:4,").find("given ''"), std::string::npos);
  EXPECT_NE(entries("relu:2:decay=token,elu:2:decay=fixed").find("fixed and token"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) { c.feature_dim = 9; }).find("feature_dim: given 9"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) {
              c.decay = Decay::kToken;
              c.causal = false;
            }).find("for an encoder"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) {
              c.decay = Decay::kToken;
              c.attention = "exact";
            }).find("decay: given for exact attention"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) {
              c.feature_dim = 4;
              c.heads_of = "exact:4";
            }).find("feature_dim: given for 4 × exact attention"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) {
              c.kind_options = {{"window", 5}};
              c.heads_of = "exact:4";
            }).find("given window"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) {  // every layer is exact: still checked
              c.heads_of = "nonsense";
              c.exact_every = 1;
            })
                .find("given 'nonsense'"),
            std::string::npos);
  EXPECT_NE(refused([](ModelConfig& c) {
              c.kv_heads = 2;
              c.heads_of = "relu:1,elu:3";
            }).find("expected a multiple of 2"),
            std::string::npos);
}

TEST(Heads, ConfigsHoldThemOnlyIfGiven) {
  ModelConfig config = DecoderConfig();
  for (const char* key : {"decay", "feature_dim", "heads_of", "exact_every"})
    EXPECT_FALSE(models::ToJson(config).contains(key)) << key;
  config.decay = Decay::kToken;
  config.heads_of = "relu:4";
  EXPECT_EQ(models::ToJson(config)["decay"], "token");
  EXPECT_EQ(models::ToJson(config)["heads_of"], "relu:4");
}

// Models in which tokens differ in what they make heads forget.
class ForgettingDecoder : public testing::TestWithParam<const char*> {
 protected:
  static ModelConfig Config() {
    ModelConfig config = DecoderConfig();
    config.features.map = "elu";
    config.heads_of = GetParam();
    config.kv_heads = 2;
    config.convolution = 3;
    return config;
  }
  static Model Shaken() {
    Model model(Config(), 3);
    for (const Model::NamedParameter& parameter : model.Parameters()) {
      if (parameter.name.find("decay") == std::string::npos) continue;
      for (int64_t i = 0; i < parameter.value.shape().Elements(); ++i)
        parameter.value.Data<float>()[i] += 0.3f * static_cast<float>(i % 7 - 3);
    }
    return model;
  }
  static std::vector<int32_t> Tokens(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i % 23));
    return tokens;
  }
  const Context context_{{.threads = 2}};
};

TEST_P(ForgettingDecoder, ReadsTokenByTokenLikeTheParallelPass) {
  const Model model = Shaken();
  const std::vector<int32_t> tokens = Tokens(70);
  const Tensor parallel = model.Logits({.batch = 1, .length = 70, .tokens = tokens}, context_);
  for (const size_t piece : {size_t{1}, size_t{9}, size_t{70}}) {
    Decoder decoder(model, context_);
    for (size_t at = 0; at < 70; at += piece) {
      const size_t count = std::min(piece, 70 - at);
      decoder.Read(std::span(tokens).subspan(at, count));
      for (size_t i = 0; i < 23; ++i) {
        ASSERT_NEAR(decoder.Logits()[i], parallel.Data<float>()[(at + count - 1) * 23 + i], 2e-4)
            << piece << " token " << at;
      }
    }
  }
}

TEST_P(ForgettingDecoder, GoesOnFromAFileBitForBit) {
  const TempDir dir;
  const Model model = Shaken();
  Decoder decoder(model, context_), loaded(model, context_);
  decoder.Read(Tokens(25));
  decoder.Save(dir / "prefix");
  loaded.Load(dir / "prefix");
  EXPECT_EQ(loaded.StateBytes(), decoder.StateBytes());
  for (const int32_t token : {4, 5, 6}) {
    decoder.Read({&token, 1});
    loaded.Read({&token, 1});
    EXPECT_TRUE(std::ranges::equal(loaded.Logits(), decoder.Logits()));
  }
  const TempDir files;
  model.Save(files / "model");
  const Model again = Model::Load(files / "model");
  const Tensor want = model.Logits({.batch = 1, .length = 25, .tokens = Tokens(25)}, context_),
               got = again.Logits({.batch = 1, .length = 25, .tokens = Tokens(25)}, context_);
  for (int64_t i = 0; i < 25 * 23; ++i) EXPECT_EQ(got.Data<float>()[i], want.Data<float>()[i]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ForgettingDecoder,
                         testing::Values("elu:4:decay=token", "elu:4:decay=fixed",
                                         "elu:2:decay=token,taylor:2:dim=3",
                                         "exact:2,taylor:2:dim=4:decay=token"));

}  // namespace
}  // namespace favor
