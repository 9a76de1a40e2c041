// Tokens that a decoder on a GPU reads one by one: its second one is recorded and the others repeat
// the record, which must give the bits of passes that are queued operation by operation. Skipped if
// there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/operation_times.h"
#include "favor/error.h"
#include "favor/generate.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};

// Decoders whose states stay in place, with every kind of position.
std::vector<ModelConfig> Configs() {
  std::vector<ModelConfig> configs;
  for (const Positions positions :
       {Positions::kRotary, Positions::kSinusoidal, Positions::kLearned}) {
    for (const int64_t taps : {0, 4}) {
      ModelConfig config = DecoderConfig();
      config.positions = positions;
      config.max_length = 300;
      config.convolution = taps;
      config.features.map = taps == 0 ? "positive" : "relu";
      config.decay = taps == 0 ? Decay::kNone : Decay::kToken;
      config.norm = positions == Positions::kSinusoidal ? Norm::kPost : Norm::kPre;
      configs.push_back(config);
    }
  }
  configs.push_back(DecoderConfig());
  configs.back().heads_of = "relu:1:decay=token,taylor:2:dim=4:decay=none,positive:1";
  // Some layers stay in place, others do not: nothing is recorded.
  configs.push_back(DecoderConfig());
  configs.back().layers = 3;
  configs.back().exact_every = 2;
  configs.push_back(DecoderConfig());
  configs.back().attention = "identity";
  return configs;
}

std::string NameOf(const ModelConfig& config) {
  return config.attention + config.heads_of + ", " + std::string(Name(config.positions)) + ", " +
         std::to_string(config.convolution) + " taps";
}

class CudaStep : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    recorded_.emplace(ContextOptions{.device = kGpu});
    direct_.emplace(ContextOptions{.device = kGpu});
    times_.emplace(*direct_);  // operations that are timed are not recorded
  }

  static void Read(Decoder& decoder, std::span<const int32_t> tokens, size_t piece = 1) {
    for (; !tokens.empty(); tokens = tokens.subspan(std::min(piece, tokens.size())))
      decoder.Read(tokens.first(std::min(piece, tokens.size())));
  }
  static void ExpectEqual(const Decoder& a, const Decoder& b) {
    ASSERT_EQ(a.tokens(), b.tokens());
    EXPECT_EQ(a.StateBytes(), b.StateBytes());
    ASSERT_TRUE(std::ranges::equal(a.Logits(), b.Logits())) << "after " << a.tokens();
  }
  // Reads the tokens one by one with both and compares after each.
  static void ReadAndCompare(Decoder& a, Decoder& b, std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) {
      a.Read({&token, 1});
      b.Read({&token, 1});
      ExpectEqual(a, b);
    }
  }

  TempDir dir_;
  std::optional<Context> recorded_, direct_;
  std::optional<OperationTimes> times_;
};

// Beyond the 64 tokens whose angles are made at a time.
TEST_F(CudaStep, RecordedTokensGiveTheBitsOfOthers) {
  const std::vector<int32_t> tokens = Tokens(140, 23);
  for (const ModelConfig& config : Configs()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      SCOPED_TRACE(NameOf(config));
      const Model model(config, 3, {kGpu, type});
      Decoder a(model, *recorded_), b(model, *direct_);
      ReadAndCompare(a, b, tokens);
    }
  }
}

// Pieces of several tokens use other memory, so that a new record is made behind them.
TEST_F(CudaStep, PiecesComeBetweenTokens) {
  const std::vector<int32_t> tokens = Tokens(240, 23);
  for (const ModelConfig& config : Configs()) {
    SCOPED_TRACE(NameOf(config));
    const Model model(config, 3, {kGpu, DataType::kF32});
    Decoder a(model, *recorded_), b(model, *direct_);
    std::span<const int32_t> rest = tokens;
    for (const size_t piece : {size_t{7}, size_t{1}, size_t{90}, size_t{2}}) {
      a.Read(rest.first(piece));
      b.Read(rest.first(piece));
      ExpectEqual(a, b);
      ReadAndCompare(a, b, rest.subspan(piece, 6));
      rest = rest.subspan(piece + 6);
    }
  }
}

TEST_F(CudaStep, LoadedPrefixesAreReadWhereTheyAre) {
  const std::vector<int32_t> tokens = Tokens(40, 23);
  const auto first = std::span(tokens).first(20), rest = std::span(tokens).subspan(20);
  for (const ModelConfig& config : Configs()) {
    SCOPED_TRACE(NameOf(config));
    const Model model(config, 3, {kGpu, DataType::kBF16});
    Decoder a(model, *recorded_), b(model, *direct_);
    Read(a, first);
    a.Save(dir_ / "recorded");
    Read(b, first);
    b.Save(dir_ / "direct");
    Read(a, rest);
    Decoder c(model, *recorded_);
    for (const char* file : {"recorded", "direct"}) {
      for (Decoder* decoder : {&a, &b, &c}) decoder->Load(dir_ / file);
      ReadAndCompare(a, b, rest);
      Read(c, rest);
      ExpectEqual(a, c);
    }
  }
}

// What passes over a longer prefix have left is too short for what follows a shorter one.
TEST_F(CudaStep, ShorterPrefixesAreLoadedAfterAPiece) {
  const std::vector<int32_t> tokens = Tokens(40, 23);
  const auto first = std::span(tokens).first(3), rest = std::span(tokens).subspan(3);
  for (const ModelConfig& config : Configs()) {
    SCOPED_TRACE(NameOf(config));
    const Model model(config, 3, {kGpu, DataType::kF32});
    Decoder b(model, *direct_);
    Read(b, first, 3);
    b.Save(dir_ / "short");
    for (const size_t piece : {size_t{9}, size_t{6}, size_t{30}}) {
      Decoder other(model, *recorded_);
      Read(other, std::span(tokens).first(piece), piece);
      other.Load(dir_ / "short");
      b.Load(dir_ / "short");
      ReadAndCompare(other, b, rest);
    }
  }
}

TEST_F(CudaStep, ClonesRecordTheirOwn) {
  const std::vector<int32_t> tokens = Tokens(30, 23);
  for (const ModelConfig& config : Configs()) {
    SCOPED_TRACE(NameOf(config));
    const Model model(config, 3, {kGpu, DataType::kF32});
    Decoder a(model, *recorded_), b(model, *direct_);
    ReadAndCompare(a, b, tokens);
    Decoder copy = a.Clone(), other = b.Clone();
    ReadAndCompare(copy, other, std::vector<int32_t>{5, 6, 7, 8, 9});
    ReadAndCompare(a, b, std::vector<int32_t>{9, 8, 7, 6, 5});
    a = copy.Clone();
    copy.Read(std::vector<int32_t>{1});
    ReadAndCompare(a, other, std::vector<int32_t>{4, 3, 2});
  }
}

std::vector<int32_t> TokensOfStep(int64_t step, int64_t sequences) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < sequences; ++i)
    tokens.push_back(static_cast<int32_t>((7 * step + (step % 3) * i + 3 * i) % 23));
  return tokens;
}

// Sequences together: bits of passes that are not recorded, and within rounding what each of them
// gives alone.
TEST_F(CudaStep, SequencesGiveWhatTheyGiveAlone) {
  for (const ModelConfig& config : Configs()) {
    for (const int64_t sequences : {2, 7}) {
      SCOPED_TRACE(NameOf(config));
      const Model model(config, 3, {kGpu, DataType::kF32});
      Decoder prefix(model, *recorded_), other(model, *direct_);
      prefix.Read(Tokens(9, 23));
      other.Read(Tokens(9, 23));
      Decoder a = prefix.Fork(sequences), b = other.Fork(sequences);
      ExpectEqual(a, b);
      std::vector<Decoder> alone;
      for (int64_t i = 0; i < sequences; ++i) alone.push_back(prefix.Clone());
      for (int64_t step = 0; step < 70; ++step) {
        const std::vector<int32_t> tokens = TokensOfStep(step, sequences);
        a.ReadEach(tokens);
        b.ReadEach(tokens);
        for (int64_t i = 0; i < sequences; ++i) {
          const auto at = static_cast<size_t>(i);
          alone[at].Read({&tokens[at], 1});
          ASSERT_TRUE(std::ranges::equal(a.Logits(i), b.Logits(i))) << step;
          for (size_t j = 0; j < 23; ++j)
            ASSERT_NEAR(a.Logits(i)[j], alone[at].Logits()[j], 5e-4) << step << " of " << i;
        }
      }
      EXPECT_EQ(a.StateBytes(), sequences * alone[0].StateBytes());
    }
  }
}

TEST_F(CudaStep, SequencesInBf16AreNear) {
  const Context cpu({.threads = 2});
  for (const ModelConfig& config : Configs()) {
    SCOPED_TRACE(NameOf(config));
    const Model here(config, 3), there(config, 3, {kGpu, DataType::kBF16});
    Decoder want(here, cpu), have(there, *recorded_);
    want.Read(Tokens(9, 23));
    have.Read(Tokens(9, 23));
    Decoder a = want.Fork(3), b = have.Fork(3);
    for (int64_t step = 0; step < 20; ++step) {
      a.ReadEach(TokensOfStep(step, 3));
      b.ReadEach(TokensOfStep(step, 3));
      for (int64_t i = 0; i < 3; ++i) {
        double difference = 0, size = 0;
        for (size_t j = 0; j < 23; ++j) {
          difference += std::pow(a.Logits(i)[j] - b.Logits(i)[j], 2);
          size += std::pow(a.Logits(i)[j], 2);
        }
        ASSERT_LE(std::sqrt(difference / size), 3e-2) << step << " of " << i;
      }
    }
  }
}

// What a recorded token could not be computed with is counted as any other.
TEST_F(CudaStep, RecordedTokensSayWhatTheyCannotRead) {
  Model model(DecoderConfig(), 3, {kGpu, DataType::kF32});
  Decoder decoder(model, *recorded_);
  Read(decoder, Tokens(8, 23));
  decoder.Save(dir_ / "context");
  {
    const SpoiledWeight spoiled(model);
    EXPECT_THROW(Read(decoder, Tokens(1, 23)), Error);
  }
  EXPECT_THROW(Read(decoder, Tokens(1, 23)), Error);
  decoder.Load(dir_ / "context");
  Decoder other(model, *direct_);
  other.Load(dir_ / "context");
  ReadAndCompare(decoder, other, Tokens(8, 23));
}

}  // namespace
}  // namespace favor
