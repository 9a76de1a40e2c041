// Decoders of models on a GPU next to those of the same models on the CPU. Skipped if there is no
// GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "favor/error.h"
#include "favor/generate.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr uint64_t kSeed = 3;
constexpr int64_t kLength = 150;

std::vector<int32_t> Tokens(int64_t count) { return SmallBatch({.vocab = 23}, 1, count).tokens; }

struct Setting {
  std::string name;
  std::function<void(ModelConfig&)> change;
};

std::vector<Setting> Settings() {
  return {
      {"positive", [](ModelConfig&) {}},
      {"relu that forgets, convolutions, rounded omega",
       [](ModelConfig& c) {
         c.features.map = "relu";
         c.features.omega_type = OmegaType::kBF16;
         c.decay = Decay::kToken;
         c.convolution = 4;
       }},
      {"taylor that forgets",
       [](ModelConfig& c) {
         c.features.map = "taylor";
         c.decay = Decay::kToken;
       }},
      {"fixed forgetting, heads that share keys, sinusoidal positions, norms behind",
       [](ModelConfig& c) {
         c.decay = Decay::kFixed;
         c.kv_heads = 2;
         c.positions = Positions::kSinusoidal;
         c.norm = Norm::kPost;
       }},
      {"exact, learned positions, untied",
       [](ModelConfig& c) {
         c.attention = "exact";
         c.positions = Positions::kLearned;
         c.max_length = kLength;
         c.tied = false;
       }},
      {"exact, heads that share keys, convolutions",
       [](ModelConfig& c) {
         c.attention = "exact";
         c.kv_heads = 1;
         c.convolution = 4;
       }},
      {"a window",
       [](ModelConfig& c) {
         c.attention = "exact-window";
         c.kind_options = {{"window", 5}};
       }},
      {"mixed heads",
       [](ModelConfig& c) {
         c.heads_of = "relu:1:decay=token,taylor:2:dim=4:decay=none,exact:1";
         c.convolution = 2;
       }},
      {"every second layer exact",
       [](ModelConfig& c) {
         c.layers = 3;
         c.exact_every = 2;
       }},
      {"identity", [](ModelConfig& c) { c.attention = "identity"; }},
  };
}

ModelConfig ConfigOf(const Setting& setting) {
  ModelConfig config = DecoderConfig();
  setting.change(config);
  return config;
}

// Logits after each piece of so many tokens.
std::vector<std::vector<float>> Read(Decoder& decoder, std::span<const int32_t> tokens,
                                     size_t piece) {
  std::vector<std::vector<float>> logits;
  for (size_t at = 0; at < tokens.size(); at += piece) {
    decoder.Read(tokens.subspan(at, std::min(piece, tokens.size() - at)));
    logits.emplace_back(decoder.Logits().begin(), decoder.Logits().end());
  }
  return logits;
}

// Relative to the size of what is expected.
double ErrorOf(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - want[i], 2);
    size += std::pow(want[i], 2);
  }
  return std::sqrt(difference / size);
}

bool Equal(std::span<const float> a, std::span<const float> b) { return std::ranges::equal(a, b); }

class CudaDecoder : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    gpu_.emplace(ContextOptions{.device = kGpu});
  }
  static Model OnGpu(const ModelConfig& config, DataType pass_type = DataType::kF32) {
    return Model(config, kSeed, {kGpu, pass_type});
  }

  TempDir dir_;
  const Context cpu_{{.threads = 2}};
  std::optional<Context> gpu_;
};

TEST_F(CudaDecoder, LogitsAreThoseOfTheCpuInPiecesOfAnySize) {
  const std::vector<int32_t> tokens = Tokens(kLength);
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    const ModelConfig config = ConfigOf(setting);
    const Model here(config, kSeed), there = OnGpu(config);
    Decoder expected(here, cpu_);
    const auto want = Read(expected, tokens, 1);
    for (const size_t piece : {size_t{1}, size_t{3}, size_t{67}, size_t{150}}) {
      Decoder decoder(there, *gpu_);
      const auto got = Read(decoder, tokens, piece);
      EXPECT_EQ(decoder.tokens(), kLength);
      EXPECT_EQ(decoder.StateBytes(), expected.StateBytes());
      for (size_t i = 0; i < got.size(); ++i) {
        const size_t end = std::min((i + 1) * piece, tokens.size());
        ASSERT_LE(ErrorOf(got[i], want[end - 1]), 1e-4) << piece << " at a time, after " << end;
      }
    }
  }
}

// More tokens than a chunk of a prompt, and than angles and memory for keys are made for at once.
TEST_F(CudaDecoder, ReadsLongPrompts) {
  for (const char* attention : {"linear", "exact"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    config.convolution = 3;
    const std::vector<int32_t> tokens = Tokens(1300);
    const Model here(config, kSeed), there = OnGpu(config);
    Decoder expected(here, cpu_), whole(there, *gpu_), pieces(there, *gpu_);
    expected.Read(tokens);
    whole.Read(tokens);
    Read(pieces, tokens, 300);
    EXPECT_LE(ErrorOf(whole.Logits(), expected.Logits()), 1e-4) << attention;
    EXPECT_LE(ErrorOf(pieces.Logits(), expected.Logits()), 1e-4) << attention;
  }
}

TEST_F(CudaDecoder, PassesInBf16AreNear) {
  const std::vector<int32_t> tokens = Tokens(kLength);
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    const ModelConfig config = ConfigOf(setting);
    const Model here(config, kSeed), there = OnGpu(config, DataType::kBF16);
    Decoder expected(here, cpu_), tokenwise(there, *gpu_), whole(there, *gpu_);
    const auto want = Read(expected, tokens, 1), got = Read(tokenwise, tokens, 1);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_LE(ErrorOf(got[i], want[i]), 3e-2) << "after " << i + 1;
    whole.Read(tokens);
    EXPECT_LE(ErrorOf(whole.Logits(), want.back()), 3e-2);
    EXPECT_FALSE(Equal(whole.Logits(), want.back()));
  }
}

TEST_F(CudaDecoder, KeysInBf16TakeHalfOfTheMemory) {
  ModelConfig config = DecoderConfig();
  config.attention = "exact";
  const Model exact = OnGpu(config), rounded = OnGpu(config, DataType::kBF16);
  Decoder a(exact, *gpu_), b(rounded, *gpu_);
  a.Read(Tokens(10));
  b.Read(Tokens(10));
  EXPECT_EQ(a.StateBytes(), 10 * 2 /*layers*/ * 2 /*k, v*/ * 32 * 4);
  EXPECT_EQ(b.StateBytes() * 2, a.StateBytes());
}

TEST_F(CudaDecoder, ClonesGoTheirOwnWay) {
  for (const Setting& setting : Settings()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      SCOPED_TRACE(setting.name);
      const Model model = OnGpu(ConfigOf(setting), type);
      Decoder decoder(model, *gpu_);
      Read(decoder, Tokens(20), 1);
      const std::vector<float> before(decoder.Logits().begin(), decoder.Logits().end());
      Decoder other = decoder.Clone();
      EXPECT_TRUE(Equal(other.Logits(), before));
      Read(other, std::vector<int32_t>{1, 2, 3}, 1);
      EXPECT_EQ(decoder.tokens(), 20);
      EXPECT_TRUE(Equal(decoder.Logits(), before));
      Read(decoder, std::vector<int32_t>{1, 2, 3}, 1);
      EXPECT_TRUE(Equal(decoder.Logits(), other.Logits()));
      EXPECT_EQ(decoder.StateBytes(), other.StateBytes());
    }
  }
}

TEST_F(CudaDecoder, FilesCarryPrefixesBetweenDevices) {
  const std::vector<int32_t> tokens = Tokens(60);
  const auto first = std::span(tokens).first(40), rest = std::span(tokens).subspan(40);
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    const ModelConfig config = ConfigOf(setting);
    const Model here(config, kSeed), there = OnGpu(config);
    Decoder expected(here, cpu_), decoder(there, *gpu_);
    const std::vector<float> at_first = Read(expected, first, 40).back();
    expected.Save(dir_ / "from cpu");
    const std::vector<float> at_end = Read(expected, rest, 1).back();
    decoder.Read(first);
    decoder.Save(dir_ / "from gpu");
    for (const char* file : {"from cpu", "from gpu"}) {
      Decoder on_cpu(here, cpu_), on_gpu(there, *gpu_);
      on_cpu.Load(dir_ / file);
      on_gpu.Load(dir_ / file);
      EXPECT_EQ(on_gpu.tokens(), 40);
      EXPECT_EQ(on_gpu.StateBytes(), on_cpu.StateBytes());
      EXPECT_TRUE(Equal(on_gpu.Logits(), on_cpu.Logits()));
      EXPECT_LE(ErrorOf(on_gpu.Logits(), at_first), 1e-4) << file;
      EXPECT_LE(ErrorOf(Read(on_cpu, rest, 1).back(), at_end), 1e-4) << file;
      EXPECT_LE(ErrorOf(Read(on_gpu, rest, 1).back(), at_end), 1e-4) << file;
    }
  }
}

TEST_F(CudaDecoder, FilesContinueBitForBit) {
  for (const Setting& setting : Settings()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      SCOPED_TRACE(setting.name);
      const Model model = OnGpu(ConfigOf(setting), type);
      Decoder decoder(model, *gpu_), loaded(model, *gpu_);
      decoder.Read(Tokens(25));
      decoder.Save(dir_ / "context");
      loaded.Read(Tokens(90));
      loaded.Load(dir_ / "context");
      EXPECT_TRUE(Equal(loaded.Logits(), decoder.Logits()));
      EXPECT_EQ(loaded.StateBytes(), decoder.StateBytes());
      for (const int32_t token : {4, 5, 6}) {
        decoder.Read({&token, 1});
        loaded.Read({&token, 1});
        EXPECT_TRUE(Equal(loaded.Logits(), decoder.Logits()));
      }
    }
  }
}

TEST_F(CudaDecoder, AnotherModelsPrefixIsRefused) {
  const Model model = OnGpu(DecoderConfig()), other(DecoderConfig(), kSeed + 1, {kGpu});
  Decoder decoder(model, *gpu_), stranger(other, *gpu_);
  decoder.Read(Tokens(5));
  decoder.Save(dir_ / "context");
  EXPECT_THROW(stranger.Load(dir_ / "context"), Error);
  EXPECT_EQ(stranger.tokens(), 0);
}

// A weight of the last layer is out of range: the layer before it has already read the tokens.
TEST_F(CudaDecoder, AContextThatBrokeOffIsNotGoneOnWith) {
  for (const char* attention : {"linear", "exact"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    Model model = OnGpu(config);
    Decoder decoder(model, *gpu_);
    decoder.Read(Tokens(5));
    decoder.Save(dir_ / "context");
    {
      const SpoiledWeight spoiled(model);
      EXPECT_THROW(decoder.Read(Tokens(3)), Error);
    }
    EXPECT_EQ(decoder.tokens(), 5);
    Decoder copy = decoder.Clone();
    for (Decoder* lost : {&decoder, &copy}) {
      EXPECT_THROW(lost->Read(Tokens(3)), Error);
      EXPECT_THROW(lost->Save(dir_ / "lost"), Error);
    }
    Decoder expected(model, *gpu_);
    expected.Read(Tokens(5));
    expected.Read(Tokens(3));
    decoder.Load(dir_ / "context");
    decoder.Read(Tokens(3));
    EXPECT_TRUE(Equal(decoder.Logits(), expected.Logits())) << attention;
  }
}

TEST_F(CudaDecoder, RefusesAContextOnAnotherDevice) {
  const Model model = OnGpu(DecoderConfig());
  try {
    const Decoder decoder(model, cpu_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "context: given one on cpu, but the model is on cuda:0");
  }
}

}  // namespace
}  // namespace favor
