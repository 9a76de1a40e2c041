// The config of a run as JSON: every field is written and read back, and errors help.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "favor/error.h"
#include "favor/train.h"
#include "train/config_fields.h"

namespace favor {
namespace {

TEST(RunConfigJson, ComesBackAsItWas) {
  RunConfig config{.data = "a \"file\" with\nlines", .task = Task::kMasked};
  config.model = Preset("small");
  config.model.causal = false;
  config.model.vocab = 33;
  config.model.kv_heads = 1;
  config.model.tied = false;
  config.model.features.omega_norm = OmegaNorm::kSqrtD;
  config.model.features.oprf_a = {-0.25};
  config.model.features.kernel_epsilon = 1e-3;
  config.training.learning_rate = 1.0 / 3;
  config.training.recompute = true;
  config.training.seed = INT64_MAX;
  RunConfig back;
  ReadRunConfig(ToJson(config), "config", back);
  EXPECT_EQ(ToJson(back), ToJson(config));
  EXPECT_EQ(back.model.features.omega_norm, OmegaNorm::kSqrtD);
  EXPECT_EQ(back.training.learning_rate, 1.0 / 3);
  EXPECT_EQ(back.training.seed, INT64_MAX);
}

// All values of all enums, and all names in tables, pass through the file and through options.
TEST(RunConfigJson, EveryChoiceComesBack) {
  RunConfig config;
  const std::vector<Field> fields = train::RunFields(config);
  int seen = 0;
  for (const Field& field : fields) {
    std::span<const std::string_view> names;
    if (const auto* choice = std::get_if<ChoiceField>(&field.value)) names = choice->names;
    if (const auto* entry = std::get_if<NameField>(&field.value)) names = entry->names;
    const std::string key(field.key);
    for (const std::string_view name : names) {
      ++seen;
      FieldFromText("option", std::string(name), field);
      EXPECT_EQ(FieldsToJson(fields)[key], name) << key;
      RunConfig back;
      ReadRunConfig(ToJson(config), "config", back);
      EXPECT_EQ(FieldsToJson(train::RunFields(back))[key], name) << key;
      try {
        FieldFromText("--" + key, std::string(name) + "x", field);
        FAIL() << key;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("did you mean '" + std::string(name) + "'"),
                  std::string::npos)
            << error.what();
      }
    }
  }
  EXPECT_GT(seen, 45);
}

// Fields for foreign models are written only if used, so that older versions can read other files.
TEST(RunConfigJson, NewFieldsAreWrittenOnlyIfTheyChanged) {
  RunConfig config;
  for (const char* key : {"norm_epsilon", "embedding_scale"}) {
    EXPECT_EQ(ToJson(config).find(key), std::string::npos);
    EXPECT_TRUE(FieldsToJson(train::RunFields(config)).contains(key));
  }
  config.model.norm_epsilon = 1e-12;
  config.model.embedding_scale = 1;
  EXPECT_NE(ToJson(config).find("\"norm_epsilon\": 1e-12"), std::string::npos) << ToJson(config);
  EXPECT_NE(ToJson(config).find("\"embedding_scale\": 1.0"), std::string::npos);
  RunConfig back;
  ReadRunConfig(ToJson(config), "config", back);
  EXPECT_EQ(ToJson(back), ToJson(config));
  EXPECT_EQ(back.model.norm_epsilon, 1e-12);
  EXPECT_EQ(back.model.embedding_scale, 1);
}

TEST(RunConfigJson, KeysAreDifferent) {
  RunConfig config;
  const std::vector<Field> fields = train::RunFields(config);
  EXPECT_EQ(FieldsToJson(fields).size(), fields.size());
}

TEST(RunConfigJson, SetsOnlyWhatItHolds) {
  RunConfig config;
  config.model.width = 99;
  ReadRunConfig(R"({"training": {"steps": 5}, "data": "x"})", "config", config);
  EXPECT_EQ(config.training.steps, 5);
  EXPECT_EQ(config.model.width, 99);
  EXPECT_EQ(config.data, "x");
}

void ExpectRefused(const std::string& json, const std::string& says) {
  RunConfig config;
  try {
    ReadRunConfig(json, "file.json", config);
    FAIL() << json;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_EQ(std::string(error.what()).rfind("file.json: ", 0), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

TEST(RunConfigJson, RefusesWhatCannotBe) {
  ExpectRefused("", "not JSON");
  ExpectRefused(R"({"task": "causal", "task": "masked"})", "occurs twice");
  ExpectRefused(R"({"model":)" + std::string(100000, '[') + std::string(100000, ']') + "}",
                "nested too deeply");
  ExpectRefused("[1]", "not a JSON object");
  ExpectRefused(R"({"model": 3})", "expected an object");
  ExpectRefused(R"({"model": {"heads": 2.5}})", "heads: given 2.5, expected a whole number");
  ExpectRefused(R"({"model": {"heads": -1}})", "heads: given -1");
  ExpectRefused(R"({"model": {"heads": 18446744073709551615}})", "heads");
  ExpectRefused(R"({"model": {"norm": "per"}})", "did you mean 'pre'");
  ExpectRefused(R"({"model": {"tied": "yes"}})", "expected true or false");
  ExpectRefused(R"({"model": {"nrom": "pre"}})", "did you mean 'norm'");
  ExpectRefused(R"({"training": {"dropout": null}})", "dropout");
  ExpectRefused(R"({"training": {"learnig_rate": 1}})", "did you mean 'learning_rate'");
  ExpectRefused(R"({"taks": "causal"})", "did you mean 'task'");
  ExpectRefused(R"({"task": "casual"})", "did you mean 'causal'");
  ExpectRefused(R"({"data": 7})", "data: given 7, expected a text");
}

TEST(RunConfigJson, TrainersCheckConfigsOfPrograms) {
  const Context context({.threads = 1});
  RunConfig config{.data = "task:copy"};
  config.training.dropout = 2;
  EXPECT_THROW(Trainer(config, context), Error);
  config.training.dropout = 0;
  config.training.batch = 0;
  EXPECT_THROW(Trainer(config, context), Error);
}

// What is recommended can be taken back, and nothing else changes.
TEST(Recommended, AndThePapersSettings) {
  RunConfig run;
  run.model.width = 64;
  run.training.dropout = 0.3;
  const std::string before = ToJson(run);
  UseRecommended(run);
  EXPECT_EQ(run.model.features.map, "relu");
  EXPECT_EQ(run.model.decay, Decay::kToken);
  EXPECT_EQ(run.model.width, 64);
  EXPECT_EQ(run.training.dropout, 0.3);
  train::UsePaper(run);
  EXPECT_EQ(ToJson(run), before);
  run.task = Task::kMasked;
  UseRecommended(run);
  EXPECT_EQ(run.model.decay, Decay::kNone);
}

}  // namespace
}  // namespace favor
