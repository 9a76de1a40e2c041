// Checkpoints: what is written is read, and no byte can change undetected.
#include "models/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/access.h"
#include "favor/error.h"
#include "favor/train.h"
#include "tests/models/scored_pass.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

using models::Checkpoint;

class CheckpointFile : public testing::Test {
 protected:
  CheckpointFile() {
    run_.data = "task:copy";
    run_.model = SmallConfig();
    run_.model.width = 4;
    run_.model.layers = 1;
    run_.model.ff = 4;
    network_ = models::Network::Make(run_.model, {.seed = 7});
    network_->Redraw(3);
    models::WriteCheckpoint(path_, *network_, {.config = ToJson(run_), .state = "{}"});
    bytes_ = ReadText(path_);
  }
  std::string Refusal(const std::string& bytes) const {
    try {
      Checkpoint(bytes, "file").MakeNetwork();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TempDir dir_;
  std::string path_ = dir_ / "model.safetensors", bytes_;
  RunConfig run_;
  std::unique_ptr<models::Network> network_;
};

TEST_F(CheckpointFile, HoldsTheModel) {
  Model model = Model::Load(path_);
  EXPECT_EQ(model.config().width, 4);
  EXPECT_EQ(internal::Inside(model).redraw(), 3u);
  EXPECT_EQ(internal::Inside(model).seed(), 7u);
  const auto parameters = model.Parameters();
  ASSERT_EQ(parameters.size(), network_->parameters().all().size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const layers::Parameter& written = *network_->parameters().all()[i];
    EXPECT_EQ(parameters[i].name, written.name);
    EXPECT_EQ(0, std::memcmp(parameters[i].value.data(), written.value.data(),
                             static_cast<size_t>(written.shape.Elements()) * sizeof(float)));
  }
  // The same answers, with the same ω.
  const Context context({.threads = 1});
  const Batch batch = SmallBatch(run_.model);
  models::PassBuffers buffers = network_->MakeBuffers();
  EXPECT_EQ(model.Evaluate(batch, context).loss,
            Evaluated(*network_, batch, {.context = context}, buffers).loss);
}

TEST_F(CheckpointFile, ModelsAreSavedAndLoaded) {
  const Context context({.threads = 1});
  for (const int64_t classes : {0, 3}) {
    ModelConfig config = SmallConfig(/*causal=*/classes == 0);
    config.classes = classes;
    config.positions = Positions::kRotary;
    config.width = 16;
    config.features = {.map = "oprf", .features = 12, .shared_omega = true, .oprf_a = {-0.5}};
    Model model(config, 9);
    internal::Inside(model).Redraw(2);
    model.Save(dir_ / "saved");
    Model loaded = Model::Load(dir_ / "saved");
    const Batch batch = SmallBatch(config);
    const Tensor a = model.Logits(batch, context), b = loaded.Logits(batch, context);
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_EQ(0, std::memcmp(a.view().data(), b.view().data(), static_cast<size_t>(a.Bytes())));
    loaded.Save(dir_ / "again");
    EXPECT_EQ(ReadText(dir_ / "saved"), ReadText(dir_ / "again"));
    // A good file is not overwritten.
    loaded.Parameters()[0].value.Data<float>()[0] = std::numeric_limits<float>::infinity();
    EXPECT_THROW(loaded.Save(dir_ / "again"), Error);
    EXPECT_EQ(ReadText(dir_ / "saved"), ReadText(dir_ / "again"));
  }
  EXPECT_THROW(Model(SmallConfig(), 1).Save(dir_ / "no/such/folder"), Error);
}

// Weights in double are written as such, and every float is read as what the network computes in.
TEST_F(CheckpointFile, KeepsTheTypeOfWeights) {
  const auto doubles = models::Network::Make(run_.model, {.seed = 7, .type = DataType::kF64});
  doubles->parameters().all()[0]->value.Data<double>()[0] = 1 + 1e-12;
  models::WriteCheckpoint(dir_ / "doubles", *doubles, {.config = ToJson(run_), .state = "{}"});
  const Checkpoint checkpoint(dir_ / "doubles");
  const auto back =
      models::Network::Make(run_.model, {.seed = 7, .type = DataType::kF64, .draw = false});
  checkpoint.ReadInto(*back);
  const auto floats = checkpoint.MakeNetwork();
  for (size_t i = 0; i < back->parameters().all().size(); ++i) {
    const View &want = doubles->parameters().all()[i]->value,
               &have = back->parameters().all()[i]->value,
               &rounded = floats->parameters().all()[i]->value;
    for (int64_t j = 0; j < want.shape().Elements(); ++j) {
      EXPECT_EQ(have.Data<double>()[j], want.Data<double>()[j]);
      EXPECT_EQ(rounded.Data<float>()[j], static_cast<float>(want.Data<double>()[j]));
    }
  }
}

TEST_F(CheckpointFile, EveryByteCounts) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    for (const char flip : {'\x01', '\x29', '\x80'}) {  // 0x29 turns a space into a tab
      std::string damaged = bytes_;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_NE(Refusal(damaged), "") << "byte " << i;
    }
  }
  for (size_t length = 0; length < bytes_.size(); length += 7)
    EXPECT_NE(Refusal(bytes_.substr(0, length)), "") << length;
  EXPECT_NE(Refusal(bytes_ + "x"), "");
  EXPECT_EQ(Refusal(bytes_), "");
}

// A file that is intact but has impossible contents.
TEST_F(CheckpointFile, LiesAreRefused) {
  const auto with_config = [&](const std::string& from, const std::string& to) {
    std::string config = ToJson(run_);
    config.replace(config.find(from), from.size(), to);
    models::WriteCheckpoint(dir_ / "lie", *network_, {.config = config, .state = "{}"});
    return Refusal(ReadText(dir_ / "lie"));
  };
  EXPECT_NE(with_config("\"width\": 4", "\"width\": 8")
                .find("embedding.weight: given F32 [7, 4], expected floats [7, 8]"),
            std::string::npos);
  // It is refused before memory of that size is allocated.
  EXPECT_NE(with_config("\"vocab\": 7", "\"vocab\": 1000000"), "");
  EXPECT_NE(with_config("\"layers\": 1", "\"layers\": 2").find("lacks"), std::string::npos);
  EXPECT_NE(with_config("\"width\"", "\"wide\"").find("unknown key 'wide'"), std::string::npos);
  EXPECT_NE(with_config("\"model\"", "\"models\"").find("no section"), std::string::npos);
  EXPECT_NE(Refusal(io::SerializeSafetensors({})).find("not a checkpoint of favor"),
            std::string::npos);
}

// The checksum of a file says that it is intact, not that its numbers are finite.
TEST_F(CheckpointFile, NumbersThatAreNoneAreRefused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    io::Safetensors file = io::ParseSafetensors(std::as_bytes(std::span(bytes_)), "file");
    file.metadata.erase("checksum");
    std::vector<float> values = file.entries.at("embedding.weight").Values<float>("file");
    values[3] = bad;
    file.entries["embedding.weight"].data = std::as_bytes(std::span(values));
    io::WriteSafetensors(dir_ / "nan", file);
    EXPECT_NE(Refusal(ReadText(dir_ / "nan")).find("embedding.weight holds NaN or infinity"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace favor
