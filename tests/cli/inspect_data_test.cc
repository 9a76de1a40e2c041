// favor inspect data as users call it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/tool_fixture.h"

namespace favor {
namespace {

class InspectData : public ToolFixture {
 protected:
  static nlohmann::json Json(std::vector<std::string> words) {
    words.insert(words.begin(), {"inspect", "data"});
    words.insert(words.end(), {"--json", "--quiet"});
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out, nullptr, false);
  }
};

// Proteins of 3 to 42 residues: the split of each is not known in advance, only all together.
TEST_F(InspectData, Proteins) {
  std::string fasta;
  const std::string letters = "ACDEFGHIKLMNPQRSTVWY";
  for (size_t i = 0; i < 40; ++i) {
    fasta += ">record" + std::to_string(i) + "\n";
    for (size_t j = 0; j < i + 3; ++j) fasta += letters[(i + j * j) % letters.size()];
    fasta += "\n";
  }
  const std::string path = dir_ / "small.fasta";
  WriteText(path, fasta);
  const std::vector<std::string> words = {"--data",       path,  "--length",      "64",
                                          "--test-share", "0.2", "--valid-share", "0.3"};
  const nlohmann::json json = Json(words);
  EXPECT_EQ(json["unit"], "residue");
  EXPECT_EQ(json["vocabulary"], "protein");
  EXPECT_EQ(json["length"], 64);
  int64_t records = 0, tokens = 0;
  for (const auto& [name, split] : json["splits"].items()) {
    const auto count = split["records"].get<int64_t>(), all = split["tokens"].get<int64_t>();
    EXPECT_DOUBLE_EQ(split["mean_length"].get<double>(),
                     static_cast<double>(all) / static_cast<double>(count));
    EXPECT_GE(split["shortest"].get<int64_t>(), 3);
    EXPECT_LE(split["longest"].get<int64_t>(), 42);
    records += count;
    tokens += all;
  }
  EXPECT_EQ(records, 40);
  EXPECT_EQ(tokens, 40 * 45 / 2);
  // Every residue is a target, and so is the end of every record.
  const auto asked = [&](const char* split) {
    return json["splits"][split]["records"].get<int64_t>() +
           json["splits"][split]["tokens"].get<int64_t>();
  };
  EXPECT_EQ(json["targets"]["counted"], asked("train"));
  EXPECT_EQ(json["baselines"]["split"], "valid");
  EXPECT_EQ(json["baselines"]["evaluated"], asked("valid"));
  ASSERT_EQ(json["baselines"]["models"].size(), 5u);
  const auto& uniform = json["baselines"]["models"][0];
  EXPECT_NEAR(uniform["loss"].get<double>(), std::log(21), 1e-12);  // 20 letters and the end
  for (const auto& each : json["targets"]["frequencies"]) {
    if (each["shown"] == "<end>") {
      EXPECT_EQ(each["count"], json["splits"]["train"]["records"]);
    }
  }

  std::vector<std::string> text = {"inspect", "data"};
  text.insert(text.end(), words.begin(), words.end());
  const ToolResult shown = RunTool(text);
  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* says : {"small.fasta: protein, 29 tokens", "median", "<end>", "bits per residue",
                           "empirical", "4-gram"})
    EXPECT_NE(shown.out.find(says), std::string::npos) << says << "\n" << shown.out;
  EXPECT_NE(shown.err.find("count: "), std::string::npos) << shown.err;  // progress

  std::vector<std::string> more = words;
  more.insert(more.end(), {"--split", "test", "--count", "50", "--evaluate", "20"});
  const nlohmann::json few = Json(more);
  // Sequences are read to their end: the first that reaches the number is the last.
  EXPECT_GE(few["targets"]["counted"], 50);
  EXPECT_LT(few["targets"]["counted"], 50 + 46);
  EXPECT_EQ(few["targets"]["all_counted"], false);
  EXPECT_GE(few["baselines"]["evaluated"], 20);
  EXPECT_LT(few["baselines"]["evaluated"], 20 + 46);
  EXPECT_EQ(few["baselines"]["split"], "test");
}

// Records are held out by name, so their figures are known.
TEST_F(InspectData, LengthsByHand) {
  std::string fasta;
  for (size_t i = 1; i <= 60; ++i)
    fasta += ">r" + std::to_string(i) + "\n" + std::string(i, 'A') + "\n";
  WriteText(dir_ / "a.fasta", fasta);
  WriteText(dir_ / "names", "r2\nr4\nr4\nr5\nr9\n");
  const auto held_out = Json({"--data", dir_ / "a.fasta", "--held-out", dir_ / "names",
                              "--no-baselines"})["splits"]["held-out"];
  EXPECT_EQ(held_out["records"], 4);
  EXPECT_EQ(held_out["tokens"], 20);
  EXPECT_EQ(held_out["shortest"], 2);
  EXPECT_EQ(held_out["longest"], 9);
  EXPECT_EQ(held_out["mean_length"], 5.0);
  EXPECT_EQ(held_out["median_length"], 4.5);
  EXPECT_NEAR(held_out["length_deviation"].get<double>(), std::sqrt(26.0 / 4), 1e-12);
}

// A hundred times "ab é\n", 6 bytes and 5 characters; 10 % of 600 bytes are for validation.
TEST_F(InspectData, Text) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "ab é\n";
  const std::string path = dir_ / "text";
  WriteText(path, bytes);
  const std::vector<std::string> words = {"--data", path, "--length", "12", "--valid-share", "0.1"};
  const nlohmann::json json = Json(words);
  const auto& valid = json["splits"]["valid"];
  EXPECT_EQ(valid["tokens"], 60);
  EXPECT_EQ(valid["words"], 20);
  EXPECT_EQ(valid["characters"], 50);
  EXPECT_DOUBLE_EQ(valid["tokens_per_word"].get<double>(), 3);
  const auto& models = json["baselines"]["models"];
  EXPECT_EQ(models[4]["accuracy"], 1);  // every byte follows from the previous one
  EXPECT_NEAR(models[0]["bits_per_character"].get<double>(), std::log2(6) * 1.2, 1e-9);
  EXPECT_NEAR(models[2]["word_perplexity"].get<double>(),
              std::exp(3 * models[2]["loss"].get<double>()), 1e-9);
  EXPECT_EQ(Json({"--data", path, "--length", "12", "--valid-share", "0.1", "--task",
                  "masked"})["baselines"]["models"]
                .size(),
            3u);  // and what is shown in the place of a masked byte
  const ToolResult shown =
      RunTool({"inspect", "data", "--data", path, "--no-baselines", "--valid-share", "0.1"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("tokens per word"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("2-gram"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.err, "");
}

TEST_F(InspectData, GeneratedTasks) {
  const ToolResult copy = RunTool({"inspect", "data", "--data", "task:copy,length=4,symbols=3"});
  EXPECT_EQ(copy.status, 0) << copy.err;
  EXPECT_NE(copy.out.find("numbers, 4 tokens"), std::string::npos) << copy.out;
  EXPECT_NE(copy.out.find("sequences of 8 tokens"), std::string::npos) << copy.out;
  EXPECT_EQ(copy.out.find("Splits"), std::string::npos) << copy.out;
  const nlohmann::json listops = Json({"--data", "task:listops", "--task", "classify"});
  EXPECT_EQ(listops["classes"], 10);
  EXPECT_EQ(listops["baselines"]["models"][1]["name"], "most frequent");
  EXPECT_TRUE(listops["splits"].empty());
}

TEST_F(InspectData, RefusesWhatItCannotRead) {
  const auto inspect = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"inspect", "data"});
    return RunTool(words);
  };
  ExpectError(inspect({}), 2, "--data: given nothing");
  ExpectError(inspect({"--data", dir_ / "none.fasta"}), 1, "none.fasta");
  WriteText(dir_ / "bad.fasta", ">a\nACDE1\n");
  ExpectError(inspect({"--data", dir_ / "bad.fasta"}), 1, "bad.fasta");
  WriteText(dir_ / "one.fasta", ">a\nACDE\n");
  ExpectError(inspect({"--data", dir_ / "one.fasta"}), 1, "split holds no record");
  EXPECT_EQ(inspect({"--data", dir_ / "one.fasta", "--no-baselines"}).status, 0);
  ExpectError(inspect({"--data", "task:coppy"}), 2, "did you mean 'copy'");
  ExpectError(inspect({"--data", "task:copy", "--task", "classify"}), 2, "expected causal");
  ExpectError(inspect({"--data", "task:copy", "--split", "held-out", "--quiet"}), 1,
              "held-out split has no targets");
  ExpectError(inspect({"--data", "task:copy", "--split", "vaild"}), 2, "did you mean 'valid'");
  ExpectError(inspect({"--data", "task:copy", "--batch", "3"}), 2, "--batch");
}

}  // namespace
}  // namespace favor
