// Tokens drawn from logits, and texts made of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "favor/error.h"
#include "favor/generate.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

// A letter vocabulary for generation: tokens of DecoderConfig are 19 letters and 4 special ones.
class Letters : public Vocabulary {
 public:
  std::string_view name() const override { return "letters"; }
  int64_t size() const override { return 23; }
  int64_t ordinary() const override { return 19; }
  SpecialTokens special() const override {
    return {.begin = 19, .end = 20, .hidden = 21, .padding = 22};
  }
  std::vector<int32_t> Encode(std::string_view, const std::string&) const override { return {}; }
  std::string Decode(std::span<const int32_t>) const override { return ""; }
  std::string Show(int32_t) const override { return ""; }
};

TEST(Generate, GreedyTokensAreThoseOfTheParallelPass) {
  const Context context({.threads = 1});
  for (const char* attention : {"linear", "exact"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    config.convolution = 3;
    Model model(config, 5);
    Decoder decoder(model, context);
    std::vector<int32_t> all = {19, 3};
    decoder.Read(all);
    const int32_t end = 20;
    const Generated generated =
        Generate(decoder, Letters(),
                 {.sampling = {.temperature = 0, .never = std::span(&end, 1)}, .tokens = 60});
    ASSERT_EQ(generated.tokens.size(), 60u);
    all.insert(all.end(), generated.tokens.begin(), generated.tokens.end());
    const Tensor logits =
        model.Logits({.batch = 1, .length = std::ssize(all), .tokens = all}, context);
    for (size_t i = 1; i + 1 < all.size(); ++i) {
      const std::span<const float> ordinary(logits.Data<float>() + i * 23, 19);
      EXPECT_EQ(static_cast<size_t>(all[i + 1]), Largest(ordinary)) << attention << " " << i;
    }
  }
}

TEST(Generate, EndsWithTheRecordAndNeverDrawsSpecialTokens) {
  const Context context({.threads = 1});
  Model model(DecoderConfig(), 5);
  bool ended = false;
  std::map<std::vector<int32_t>, int> seen;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    Decoder decoder(model, context);
    decoder.Read(std::vector<int32_t>{19});
    const Generated generated = Generate(
        decoder, Letters(), {.sampling = {.temperature = 2}, .tokens = 40, .sample = sample});
    for (const int32_t token : generated.tokens) EXPECT_LT(token, 19);
    EXPECT_EQ(generated.ended, generated.tokens.size() < 40);
    ended = ended || generated.ended;
    ++seen[generated.tokens];
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(seen.size(), 20u) << "samples of one seed differ";
}

// Samples of one prefix at a time are those that are drawn one after another; some end early.
TEST(Generate, SamplesTogetherAreThoseAlone) {
  const Context context({.threads = 2});
  for (const char* attention : {"linear", "exact"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    config.convolution = 3;
    const Model model(config, 5);
    Decoder decoder(model, context);
    decoder.Read(std::vector<int32_t>{19, 3});
    GenerateOptions options{.sampling = {.temperature = 2}, .tokens = 15, .sample = 3};
    const std::vector<Generated> together = GenerateTogether(decoder, Letters(), 4, options);
    ASSERT_EQ(together.size(), 4u);
    EXPECT_EQ(decoder.tokens(), 2);
    for (const Generated& generated : together) {
      Decoder own = decoder.Clone();
      const Generated alone = Generate(own, Letters(), options);
      EXPECT_EQ(generated.tokens, alone.tokens) << attention << " " << options.sample;
      EXPECT_EQ(generated.ended, alone.ended);
      ++options.sample;
    }
    const auto ended = std::ranges::count(together, true, &Generated::ended);
    EXPECT_TRUE(ended > 0 && ended < 4) << ended << " ended, the case should have both kinds";
    options.tokens = 0;
    EXPECT_TRUE(GenerateTogether(decoder, Letters(), 2, options)[1].tokens.empty());
  }
  const Model model(DecoderConfig(), 5);
  const Decoder empty(model, context);
  EXPECT_THROW(GenerateTogether(empty, Letters(), 2, {.tokens = 1}), Error);
}

TEST(Sample, FollowsTheSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f};
  constexpr int kDraws = 40000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> share(4), expected(4);
    for (uint64_t i = 0; i < kDraws; ++i)
      share[static_cast<size_t>(Sample(logits, {.temperature = temperature}, i))] += 1.0 / kDraws;
    double sum = 0;
    for (size_t i = 0; i < 4; ++i)
      sum += expected[i] = std::exp(static_cast<double>(logits[i]) / temperature);
    for (size_t i = 0; i < 4; ++i) {
      const double p = expected[i] / sum;  // five standard errors
      EXPECT_NEAR(share[i], p, 5 * std::sqrt(p * (1 - p) / kDraws)) << temperature;
    }
  }
}

// What is cut off is shared out: the two likeliest tokens keep the ratio of their probabilities.
TEST(Sample, FollowsTheSoftmaxOfWhatIsLeft) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f};  // p: 0.087 0.237 0.032 0.644
  constexpr int kDraws = 20000;
  const double p = 1 / (1 + std::exp(-1.0));  // of token 3 against token 1
  for (const SamplingOptions& options : {SamplingOptions{.top_p = 0.7}, {.top_k = 2}}) {
    double share = 0;
    for (uint64_t i = 0; i < kDraws; ++i)
      share += Sample(logits, options, i) == 3 ? 1.0 / kDraws : 0;
    EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / kDraws));  // five standard errors
  }
}

TEST(Sample, KeepsWithinItsLimits) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f};  // p: 0.087 0.237 0.032 0.644
  const std::vector<int32_t> never = {3};
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(Sample(logits, {.temperature = 0}, i), 3);
    EXPECT_EQ(Sample(logits, {.top_k = 1}, i), 3);
    EXPECT_EQ(Sample(logits, {.top_p = 0.6}, i), 3);
    const int32_t two = Sample(logits, {.top_k = 2}, i), most = Sample(logits, {.top_p = 0.7}, i);
    EXPECT_TRUE(two == 1 || two == 3);
    EXPECT_TRUE(most == 1 || most == 3);
    EXPECT_NE(Sample(logits, {.never = never}, i), 3);
    EXPECT_EQ(Sample(logits, {.temperature = 0, .never = never}, i), 1);
    EXPECT_EQ(Sample(logits, {.seed = 7}, i), Sample(logits, {.seed = 7}, i));
  }
  EXPECT_EQ(Sample(std::vector<float>{1, 5, 5}, {.temperature = 0}, 0), 1) << "ties";
  EXPECT_EQ(Sample(std::vector<float>{1000, -1000}, {.temperature = 1e-3}, 0), 0);
}

TEST(Sample, RefusesWhatCannotBe) {
  const std::vector<float> logits = {0.0f, NAN};
  EXPECT_THROW(Sample(logits, {}, 0), Error);
  const std::vector<float> fine = {0.0f, 1.0f};
  EXPECT_THROW(Sample(fine, {.temperature = -1}, 0), Error);
  EXPECT_THROW(Sample(fine, {.top_k = -1}, 0), Error);
  EXPECT_THROW(Sample(fine, {.top_p = 0}, 0), Error);
  EXPECT_THROW(Sample(fine, {.top_p = 1.5}, 0), Error);
  const std::vector<int32_t> all = {0, 1};
  EXPECT_THROW(Sample(fine, {.never = all}, 0), Error);
  EXPECT_THROW(Sample({}, {}, 0), Error);
}

TEST(Generate, RefusesDecodersWithoutAPromptAndOtherVocabularies) {
  const Context context({.threads = 1});
  const Model model(DecoderConfig(), 5);
  Decoder decoder(model, context);
  EXPECT_THROW(Generate(decoder, Letters(), {.tokens = 1}), Error);
  decoder.Read(Prompt(Letters(), Letters().special().begin, ""));
  EXPECT_EQ(decoder.tokens(), 1);  // only the begin token
  EXPECT_EQ(Generate(decoder, Letters(), {.tokens = 0}).tokens.size(), 0u);
  EXPECT_THROW(Generate(decoder, *OpenVocabulary("bytes"), {.tokens = 1}), Error);
}

// The token drawn last is not read: nothing after it is requested, and learned positions may end
// there.
TEST(Generate, ReadsAllTokensButTheLast) {
  const Context context({.threads = 1});
  ModelConfig config = DecoderConfig();
  config.positions = Positions::kLearned;
  config.max_length = 12;
  const Model model(config, 5);
  Decoder decoder(model, context);
  decoder.Read(std::vector<int32_t>{19, 3});
  const int32_t end = 20;
  const Generated generated =
      Generate(decoder, Letters(), {.sampling = {.never = std::span(&end, 1)}, .tokens = 11});
  EXPECT_EQ(generated.tokens.size(), 11u);
  EXPECT_EQ(decoder.tokens(), 12);
}

}  // namespace
}  // namespace favor
