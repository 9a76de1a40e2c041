// Kept prefixes: files that go on where they were, and files that do not fit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "favor/error.h"
#include "favor/generate.h"
#include "io/safetensors.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

class DecoderFile : public testing::Test {
 protected:
  TempDir dir_;
  Context context_{{.threads = 1}};
};

TEST_F(DecoderFile, GoesOnBitForBit) {
  for (const char* attention :
       {"linear", "exact", "exact-window", "window", "hybrid", "identity", "uniform"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    if (TakesWindow(attention)) config.kind_options = {{"window", 5}};
    config.convolution = 3;
    Model model(config, 1);
    Decoder decoder(model, context_);
    decoder.Read(Tokens(25, 23));
    decoder.Save(dir_ / "context");
    Decoder loaded(model, context_);
    loaded.Load(dir_ / "context");
    EXPECT_EQ(loaded.tokens(), 25);
    EXPECT_EQ(loaded.StateBytes(), decoder.StateBytes());
    EXPECT_TRUE(std::ranges::equal(loaded.Logits(), decoder.Logits())) << attention;
    for (const int32_t token : {4, 5, 6}) {
      decoder.Read({&token, 1});
      loaded.Read({&token, 1});
      EXPECT_TRUE(std::ranges::equal(loaded.Logits(), decoder.Logits())) << attention;
    }
  }
}

// A prefix without tokens has no logits either, whatever the decoder had read before.
TEST_F(DecoderFile, AnEmptyContextHasNoLogits) {
  const Model model(DecoderConfig(), 1);
  Decoder decoder(model, context_);
  decoder.Save(dir_ / "empty");
  decoder.Read(Tokens(9, 23));
  EXPECT_EQ(decoder.Logits().size(), 23u);
  decoder.Load(dir_ / "empty");
  EXPECT_EQ(decoder.tokens(), 0);
  EXPECT_TRUE(decoder.Logits().empty());
}

// After Load, nothing that the decoder had read before may show: positions, keys, sums.
TEST_F(DecoderFile, AnEarlierContextReplacesALongerOne) {
  const std::vector<int32_t> tokens = Tokens(90, 23);
  const auto read = [&](Decoder& decoder, size_t begin, size_t end, size_t piece) {
    for (size_t at = begin; at < end; at += piece)
      decoder.Read(std::span(tokens).subspan(at, std::min(piece, end - at)));
  };
  for (const char* attention : {"linear", "exact", "exact-window", "window", "hybrid", "uniform"}) {
    for (const Positions positions :
         {Positions::kRotary, Positions::kSinusoidal, Positions::kLearned}) {
      for (const size_t piece : {size_t{1}, size_t{40}, size_t{90}}) {
        SCOPED_TRACE(fmt::format("{} {}, {} at a time", attention, Name(positions), piece));
        ModelConfig config = DecoderConfig();
        config.attention = attention;
        if (TakesWindow(attention)) config.kind_options = {{"window", 7}};
        config.positions = positions;
        config.max_length = 90;
        config.convolution = 3;
        const Model model(config, 1);
        Decoder earlier(model, context_), decoder(model, context_), expected(model, context_);
        read(earlier, 0, 25, 25);
        earlier.Save(dir_ / "context");
        read(expected, 0, 25, 25);
        read(decoder, 0, 90, piece);
        decoder.Load(dir_ / "context");
        EXPECT_EQ(decoder.tokens(), 25);
        EXPECT_TRUE(std::ranges::equal(decoder.Logits(), expected.Logits()));
        for (size_t at = 25; at < 45; at += 4) {
          read(decoder, at, at + 4, 4);
          read(expected, at, at + 4, 4);
          EXPECT_TRUE(std::ranges::equal(decoder.Logits(), expected.Logits())) << at;
        }
      }
    }
  }
}

TEST_F(DecoderFile, RefusesDamageAndOtherModels) {
  Model model(DecoderConfig(), 1), other(DecoderConfig(), 2);
  Decoder decoder(model, context_);
  decoder.Read(Tokens(5, 23));
  decoder.Save(dir_ / "context");
  Decoder stranger(other, context_);
  EXPECT_THROW(stranger.Load(dir_ / "context"), Error);
  EXPECT_EQ(stranger.tokens(), 0);
  std::ifstream in(dir_ / "context", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  for (size_t i = 0; i < bytes.size(); i += 997) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    WriteText(dir_ / "damaged", damaged);
    EXPECT_THROW(decoder.Load(dir_ / "damaged"), Error) << i;
    WriteText(dir_ / "cut", bytes.substr(0, i));
    EXPECT_THROW(decoder.Load(dir_ / "cut"), Error) << i;
  }
  EXPECT_EQ(decoder.tokens(), 5);
  EXPECT_THROW(decoder.Load(dir_ / "none"), Error);
}

// Rows that convolutions still reach must all be there.
TEST_F(DecoderFile, TailsOfConvolutionsMustBeWhole) {
  ModelConfig config = DecoderConfig();
  config.convolution = 4;
  Model model(config, 1);
  Decoder decoder(model, context_);
  decoder.Read(Tokens(9, 23));
  decoder.Save(dir_ / "context");
  const std::string bytes = ReadText(dir_ / "context");
  const auto refused = [&](const auto& change) {
    io::Safetensors file = io::ParseSafetensors(std::as_bytes(std::span(bytes)), "file");
    file.metadata.erase("checksum");
    change(file);
    io::WriteSafetensors(dir_ / "changed", file);
    Decoder other(model, context_);
    EXPECT_THROW(other.Load(dir_ / "changed"), Error);
  };
  refused([](io::Safetensors& file) { file.entries.erase("layers.0.key_tail"); });
  refused([](io::Safetensors& file) {  // two rows of three
    io::SafetensorsEntry& tail = file.entries.at("layers.1.value_tail");
    tail.data = tail.data.first(tail.data.size() / 3 * 2);
    tail.shape[0] = 2;
  });
}

// A prefix of an older favor is not taken for that of another model.
TEST_F(DecoderFile, OtherVersionsAreRefusedAsSuch) {
  Model model(DecoderConfig(), 1);
  Decoder decoder(model, context_);
  decoder.Read(Tokens(5, 23));
  decoder.Save(dir_ / "context");
  const std::string bytes = ReadText(dir_ / "context");
  io::Safetensors file = io::ParseSafetensors(std::as_bytes(std::span(bytes)), "file");
  file.metadata.erase("checksum");
  file.metadata["version"] = "2";
  file.metadata["model"] = "0";
  io::WriteSafetensors(dir_ / "changed", file);
  try {
    decoder.Load(dir_ / "changed");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is a prefix of version '2', expected 3"),
              std::string::npos)
        << error.what();
  }
}

// Names and shapes of weights do not tell these apart.
TEST_F(DecoderFile, EveryOptionMakesAnotherModel) {
  ModelConfig config = DecoderConfig();
  const auto refused = [&](const auto& change) {
    Model model(config, 1);
    Decoder decoder(model, context_);
    decoder.Read(Tokens(5, 23));
    decoder.Save(dir_ / "context");
    ModelConfig changed = config;
    change(changed);
    Model other(changed, 1);
    for (size_t i = 0; i < model.Parameters().size(); ++i)
      Copy(model.Parameters()[i].value, other.Parameters()[i].value);
    Decoder stranger(other, context_);
    try {
      stranger.Load(dir_ / "context");
    } catch (const Error& error) {
      return std::string(error.what()).find("another model") != std::string::npos;
    }
    return false;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& c) { c.activation = Activation::kRelu; }));
  EXPECT_TRUE(refused([](auto& c) { c.features.shared_omega = true; }));
  EXPECT_TRUE(refused([](auto& c) { c.features.omega_norm = OmegaNorm::kSqrtD; }));
  EXPECT_TRUE(refused([](auto& c) { c.features.map = "relu"; }));
  config.attention = "exact-window";
  config.kind_options = {{"window", 9}};
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& c) { c.kind_options = {{"window", 8}}; }));
}

// A weight of the last layer is out of range: the layer before it has already read the tokens when
// that is found.
TEST_F(DecoderFile, AContextThatBrokeOffIsNotGoneOnWith) {
  for (const char* attention : {"linear", "identity"}) {
    ModelConfig config = DecoderConfig();
    config.attention = attention;
    Model model(config, 1);
    Decoder decoder(model, context_);
    decoder.Read(Tokens(5, 23));
    decoder.Save(dir_ / "context");
    const std::vector<Model::NamedParameter> parameters = model.Parameters();
    const auto weight = std::ranges::find(parameters, "layers.1.attention.value.weight",
                                          &Model::NamedParameter::name);
    ASSERT_NE(weight, parameters.end());
    float& number = weight->value.Data<float>()[0];
    const float before = std::exchange(number, std::numeric_limits<float>::infinity());
    EXPECT_THROW(decoder.Read(Tokens(3, 23)), Error);
    number = before;
    EXPECT_EQ(decoder.tokens(), 5);
    Decoder copy = decoder.Clone();
    for (Decoder* lost : {&decoder, &copy}) {
      try {
        lost->Read(Tokens(3, 23));
        FAIL() << "went on with half of a chunk";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("after its first 5"), std::string::npos)
            << error.what();
      }
      EXPECT_THROW(lost->Save(dir_ / "lost"), Error);
    }
    Decoder expected(model, context_);
    expected.Read(Tokens(5, 23));
    expected.Read(Tokens(3, 23));
    decoder.Load(dir_ / "context");
    decoder.Read(Tokens(3, 23));
    EXPECT_TRUE(std::ranges::equal(decoder.Logits(), expected.Logits())) << attention;
  }
}

}  // namespace
}  // namespace favor
