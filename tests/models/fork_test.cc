// Several sequences that continue one prefix: each gives what it gives alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "favor/error.h"
#include "favor/generate.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

// Products of up to so many rows sum in the order of one row; those of more do not.
constexpr int64_t kFew = 4, kMany = 7;

// Token `step` of each sequence.
std::vector<int32_t> TokensOfStep(int64_t step, int64_t sequences) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < sequences; ++i)
    tokens.push_back(static_cast<int32_t>((7 * step + (step % 3) * i + 3 * i) % 23));
  return tokens;
}

void ExpectSameAsAlone(const ModelConfig& config, int64_t prefix, int64_t sequences) {
  const Context context({.threads = 2});
  const Model model(config, 3);
  Decoder decoder(model, context);
  if (prefix > 0) decoder.Read(Tokens(prefix, config.vocab));
  Decoder together = decoder.Fork(sequences);
  EXPECT_EQ(together.sequences(), sequences);
  EXPECT_EQ(together.StateBytes(), sequences * decoder.StateBytes());
  std::vector<Decoder> alone;
  for (int64_t i = 0; i < sequences; ++i) {
    alone.push_back(decoder.Clone());
    EXPECT_TRUE(std::ranges::equal(together.Logits(i), decoder.Logits()));
  }
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<int32_t> tokens = TokensOfStep(step, sequences);
    together.ReadEach(tokens);
    ASSERT_EQ(together.tokens(), prefix + step + 1);
    for (size_t i = 0; i < alone.size(); ++i) {
      alone[i].Read({&tokens[i], 1});
      const std::span<const float> have = together.Logits(static_cast<int64_t>(i)),
                                   want = alone[i].Logits();
      ASSERT_EQ(have.size(), want.size());
      for (size_t j = 0; j < have.size(); ++j) {
        if (sequences == kFew) {
          ASSERT_EQ(have[j], want[j]) << "step " << step << " of sequence " << i;
        } else {
          ASSERT_NEAR(have[j], want[j], 2e-4) << "step " << step << " of sequence " << i;
        }
      }
    }
  }
  EXPECT_EQ(together.StateBytes(), sequences * alone[0].StateBytes());
}

TEST(Fork, SequencesGiveWhatTheyGiveAlone) {
  for (const char* attention :
       {"linear", "exact", "exact-window", "window", "hybrid", "identity", "uniform"}) {
    for (const Positions positions :
         {Positions::kLearned, Positions::kSinusoidal, Positions::kRotary}) {
      for (const int64_t taps : {0, 3}) {
        SCOPED_TRACE(fmt::format("{} {}{}", attention, Name(positions), taps));
        ModelConfig config = DecoderConfig(attention, positions, taps);
        if (taps > 0 && std::string(attention) == "linear") config.decay = Decay::kToken;
        for (const int64_t sequences : {kFew, kMany})
          ExpectSameAsAlone(config, positions == Positions::kRotary ? 2 : 17, sequences);
      }
    }
  }
}

TEST(Fork, HeadsOfSeveralKindsAndLinearisedLayers) {
  ModelConfig config = DecoderConfig();
  config.heads_of = "relu:1:decay=token,taylor:2:dim=4:decay=none,exact:1";
  config.convolution = 2;
  for (const int64_t sequences : {kFew, kMany}) ExpectSameAsAlone(config, 9, sequences);
  config = DecoderConfig();
  config.feed_forward = FeedForwardKind::kLinearised;
  config.linearised = {.degree = 4, .columns = 60};
  for (const int64_t sequences : {kFew, kMany}) ExpectSameAsAlone(config, 9, sequences);
}

// A prefix of nothing may be forked too.
TEST(Fork, BeforeTheFirstToken) {
  ModelConfig config = DecoderConfig();
  config.convolution = 3;
  ExpectSameAsAlone(config, 0, kFew);
}

// What is kept of a forked prefix belongs to the fork.
TEST(Fork, LeavesTheOtherAsItWas) {
  const Context context({.threads = 1});
  const Model model(DecoderConfig(), 3);
  Decoder decoder(model, context), other(model, context);
  decoder.Read(Tokens(10, 23));
  other.Read(Tokens(10, 23));
  Decoder together = decoder.Fork(kFew);
  together.ReadEach(TokensOfStep(1, kFew));
  Decoder copy = together.Clone();
  copy.ReadEach(TokensOfStep(2, kFew));
  EXPECT_EQ(together.tokens(), 11);
  together.ReadEach(TokensOfStep(2, kFew));
  for (int64_t i = 0; i < kFew; ++i)
    EXPECT_TRUE(std::ranges::equal(copy.Logits(i), together.Logits(i)));
  decoder.Read(std::vector<int32_t>{1});
  other.Read(std::vector<int32_t>{1});
  EXPECT_TRUE(std::ranges::equal(decoder.Logits(), other.Logits()));
}

TEST(Fork, RefusesWhatSeveralSequencesCannot) {
  const TempDir dir;
  const Context context({.threads = 1});
  ModelConfig config = DecoderConfig();
  config.positions = Positions::kLearned;
  config.max_length = 10;
  const Model model(config, 3);
  Decoder decoder(model, context);
  decoder.Read(Tokens(8, 23));
  decoder.Save(dir / "prefix");
  Decoder together = decoder.Fork(2);
  const auto refused = [&](const auto& call, ErrorCode code, const std::string& what) {
    try {
      call();
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  const std::string one = "given a decoder of 2 sequences, expected one";
  const ErrorCode option = ErrorCode::kInvalidOption;
  refused([&] { together.Read(Tokens(1, 23)); }, option, "read: " + one);
  refused([&] { together.Fork(2); }, option, "fork: " + one);
  refused([&] { together.Save(dir / "other"); }, option, "save: " + one);
  refused([&] { together.Load(dir / "prefix"); }, option, "load: " + one);
  refused([&] { decoder.Fork(0); }, option, "given a fork to 0 sequences");
  refused([&] { together.ReadEach(Tokens(1, 23)); }, option, "given 1 tokens for 2 sequences");
  refused([&] { together.Logits(2); }, option, "given sequence 2, expected 0 to 1");
  refused(
      [&] {
        together.ReadEach(std::vector<int32_t>{3, 23});
      },
      ErrorCode::kInvalidData, "given the token 23");
  EXPECT_EQ(together.tokens(), 8);
  together.ReadEach(Tokens(2, 23));
  together.ReadEach(Tokens(2, 23));
  refused([&] { together.ReadEach(Tokens(2, 23)); }, option, "given 1 tokens after 10");
}

}  // namespace
}  // namespace favor
