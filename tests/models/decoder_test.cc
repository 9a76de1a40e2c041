// A prefix that grows: the same logits as the model's own parallel pass, at every position.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <type_traits>

#include "favor/error.h"
#include "favor/generate.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

// Reads `piece` tokens at a time and compares the logits after each piece with the parallel pass.
void ExpectSameAsParallel(const ModelConfig& config, int64_t length, int64_t piece,
                          const std::string& what) {
  const Context context({.threads = 2});
  // Two equal models: what the parallel pass leaves in one does not help the other.
  Model model(config, 3), decoded(config, 3);
  const std::vector<int32_t> tokens = Tokens(length, config.vocab);
  const Tensor parallel = model.Logits({.batch = 1, .length = length, .tokens = tokens}, context);
  Decoder decoder(decoded, context);
  for (int64_t at = 0; at < length; at += piece) {
    const int64_t count = std::min(piece, length - at);
    decoder.Read(std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
    ASSERT_EQ(decoder.tokens(), at + count);
    const std::span<const float> row(parallel.Data<float>() + (at + count - 1) * config.vocab,
                                     static_cast<size_t>(config.vocab));
    EXPECT_EQ(Largest(decoder.Logits()), Largest(row)) << what << " " << at;
    for (size_t i = 0; i < row.size(); ++i)
      ASSERT_NEAR(decoder.Logits()[i], row[i], 2e-4) << what << " token " << at << " logit " << i;
  }
}

TEST(Decoder, TokenByTokenEqualsTheParallelPass) {
  for (const char* attention :
       {"linear", "exact", "exact-window", "window", "hybrid", "identity", "uniform"}) {
    for (const Positions positions :
         {Positions::kLearned, Positions::kSinusoidal, Positions::kRotary}) {
      for (const int64_t taps : {0, 3}) {
        ModelConfig config = DecoderConfig(attention, positions, taps);
        config.norm = taps == 0 ? Norm::kPre : Norm::kPost;
        ExpectSameAsParallel(config, 40, 1,
                             fmt::format("{} {}{}", attention, Name(positions), taps));
      }
    }
  }
}

TEST(Decoder, EveryNonnegativeMapDecodes) {
  for (const FeatureMapInfo& map : Maps()) {
    if (!map.nonnegative) continue;  // denominators near 0 magnify rounding without bound
    ModelConfig config = DecoderConfig();
    config.features.map = map.name;
    ExpectSameAsParallel(config, 30, 1, std::string(map.name));
  }
}

// Products of features and weights are made for the first token alone.
TEST(Decoder, LinearisedLayersDecode) {
  for (const bool exact : {false, true}) {
    ModelConfig config = DecoderConfig();
    config.attention = "exact";
    config.feed_forward = FeedForwardKind::kLinearised;
    config.linearised = {.degree = 4, .columns = 60, .exact_quadratic = exact};
    ExpectSameAsParallel(config, 30, 1, exact ? "exact squares" : "sketches");
    ExpectSameAsParallel(config, 30, 7, exact ? "exact squares" : "sketches");
  }
}

// Longer than the chunks in which prompts are read, and pieces that are not whole tiles.
TEST(Decoder, PiecesOfAnySizeAgree) {
  for (const char* attention : {"linear", "exact", "uniform"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    config.convolution = 4;
    for (const int64_t piece : {2, 67, 700, 1300})
      ExpectSameAsParallel(config, 1300, piece, std::string(attention) + std::to_string(piece));
  }
}

TEST(Decoder, StatesOfLinearAttentionDoNotGrow) {
  const Context context({.threads = 1});
  ModelConfig config = DecoderConfig();
  Model linear(config, 1);
  config.attention = "exact";
  Model exact(config, 1);
  Decoder a(linear, context), b(exact, context);
  a.Read(Tokens(10, 23));
  b.Read(Tokens(10, 23));
  const int64_t linear_bytes = a.StateBytes(), exact_bytes = b.StateBytes();
  a.Read(Tokens(90, 23));
  b.Read(Tokens(90, 23));
  EXPECT_EQ(a.StateBytes(), linear_bytes);
  EXPECT_EQ(b.StateBytes(), 10 * exact_bytes);
  EXPECT_EQ(exact_bytes, 10 * 2 /*layers*/ * 2 /*k, v*/ * 32 * 4);
}

void ExpectClonesGoTheirOwnWay(const ModelConfig& config) {
  const Context context({.threads = 1});
  Model model(config, 1);
  Decoder decoder(model, context);
  decoder.Read(Tokens(20, 23));
  const std::vector<float> before(decoder.Logits().begin(), decoder.Logits().end());
  Decoder other = decoder.Clone();
  other.Read(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(decoder.tokens(), 20);
  EXPECT_TRUE(std::ranges::equal(decoder.Logits(), before));
  EXPECT_FALSE(std::ranges::equal(other.Logits(), before));
  decoder.Read(std::vector<int32_t>{1, 2, 3});
  EXPECT_TRUE(std::ranges::equal(decoder.Logits(), other.Logits()));
  EXPECT_EQ(decoder.StateBytes(), other.StateBytes());
}

TEST(Decoder, ClonesGoTheirOwnWay) {
  for (const char* attention : {"linear", "exact", "exact-window", "window", "hybrid", "uniform"}) {
    for (const int64_t taps : {0, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} taps", attention, taps));
      ModelConfig config = DecoderConfig();
      config.attention = attention;
      if (TakesWindow(attention)) config.kind_options = {{"window", 5}};
      config.convolution = taps;
      ExpectClonesGoTheirOwnWay(config);
    }
  }
}

// Two decoders at once, reading pieces of different sizes, so that buffers and tables of one would
// not fit the other.
TEST(Decoder, TwoThreadsShareOneModel) {
  for (const char* attention : {"linear", "exact"}) {
    for (const Positions positions : {Positions::kRotary, Positions::kSinusoidal}) {
      ModelConfig config = DecoderConfig();
      config.attention = attention;
      config.positions = positions;
      config.convolution = 3;
      const Model model(config, 3);
      const std::vector<int32_t> tokens = Tokens(400, 23);
      const auto read = [&](size_t piece) {
        const Context context({.threads = 2});
        Decoder decoder(model, context);
        std::vector<float> logits;
        for (size_t at = 0; at < tokens.size(); at += piece) {
          decoder.Read(std::span(tokens).subspan(at, std::min(piece, tokens.size() - at)));
          logits.insert(logits.end(), decoder.Logits().begin(), decoder.Logits().end());
        }
        return logits;
      };
      const std::vector<float> first = read(1), second = read(37);
      std::vector<float> first_again, second_again;
      std::thread other([&] { first_again = read(1); });
      for (int i = 0; i < 3; ++i) second_again = read(37);
      other.join();
      EXPECT_EQ(first, first_again) << attention << " " << Name(positions);
      EXPECT_EQ(second, second_again) << attention << " " << Name(positions);
    }
  }
}

static_assert(std::is_constructible_v<Decoder, const Model&, const Context&>);
static_assert(!std::is_constructible_v<Decoder, const Model&, Context>);
static_assert(!std::is_constructible_v<Decoder, Model, const Context&>);
static_assert(!std::is_constructible_v<Decoder, Model, Context>);

TEST(Decoder, RefusesWhatItCannotRead) {
  const Context context({.threads = 1});
  ModelConfig config = DecoderConfig();
  config.positions = Positions::kLearned;
  config.max_length = 10;
  Model model(config, 1);
  Decoder decoder(model, context);
  decoder.Read(Tokens(8, 23));
  EXPECT_THROW(decoder.Read(Tokens(3, 23)), Error);
  EXPECT_EQ(decoder.tokens(), 8);
  EXPECT_THROW(decoder.Read(std::vector<int32_t>{23}), Error);
  EXPECT_THROW(decoder.Read(std::vector<int32_t>{-1}), Error);
  decoder.Read(Tokens(2, 23));
  ModelConfig encoder = SmallConfig(/*causal=*/false);
  Model bidirectional(encoder, 1);
  EXPECT_THROW(Decoder(bidirectional, context), Error);
  encoder.classes = 3;
  Model classifier(encoder, 1);
  EXPECT_THROW(Decoder(classifier, context), Error);
}

// Too many tokens are refused before anything is read, with the numbers of the caller.
TEST(Decoder, SaysHowManyTokensLearnedPositionsHold) {
  const Context context({.threads = 1});
  ModelConfig config = DecoderConfig();
  config.positions = Positions::kLearned;
  config.max_length = 700;
  const Model model(config, 5);
  Decoder decoder(model, context);
  decoder.Read(std::vector<int32_t>(600, 3));
  try {
    decoder.Read(std::vector<int32_t>(101, 3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_NE(std::string(error.what()).find("given 101 tokens after 600, expected at most 700"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(decoder.tokens(), 600);
  decoder.Read(std::vector<int32_t>(100, 3));
  EXPECT_EQ(decoder.tokens(), 700);
}

}  // namespace
}  // namespace favor
