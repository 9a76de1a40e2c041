#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benchmarks/sgemm.h"
#include "core/device.h"
#include "tests/cli/tool_fixture.h"

namespace favor {
namespace {

class BenchCommand : public ToolFixture {
 protected:
  ToolResult Run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"bench", "attention", "--lengths",  "16,32", "--heads",  "2",
                                      "--dim", "8",         "--features", "16",    "--rounds", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }
};

TEST_F(BenchCommand, PrintsATableAndWritesJsonAndAPlot) {
  const ToolResult result = Run({"--causal", "--backward", "--maps", "positive,relu", "--threads",
                                 "1", "--json", dir_ / "b.json", "--plot", dir_ / "b.svg"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("positive, orthogonal"), std::string::npos) << result.out;
  EXPECT_NE(
      result.out.find(benchmarks::LargeSgemm::Available() ? "sgemm (oneDNN)" : "No yardstick"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("time grows like L^"), std::string::npos);
  const auto json = nlohmann::json::parse(std::ifstream(dir_ / "b.json"));
  ASSERT_EQ(json["sgemm_gflops"].is_number(), benchmarks::LargeSgemm::Available());
  ASSERT_EQ(json["rows"].size(), 6u);
  for (const auto& row : json["rows"]) {
    for (const char* key :
         {"attention",    "map",           "projection",     "causal",      "backward", "batch",
          "heads",        "dim",           "value_dim",      "features",    "length",   "threads",
          "seconds",      "gflops",        "share_of_sgemm", "extra_bytes", "type",     "bytes",
          "exponentials", "share_of_copy", "omega_type",     "log_decay"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row["causal"], true);
    EXPECT_EQ(row["backward"], true);
    EXPECT_EQ(row["threads"], 1);
    if (benchmarks::LargeSgemm::Available()) {
      EXPECT_NEAR(row["share_of_sgemm"].get<double>(),
                  row["gflops"].get<double>() / json["sgemm_gflops"].get<double>(), 1e-12);
    }
  }
  std::stringstream svg;
  svg << std::ifstream(dir_ / "b.svg").rdbuf();
  EXPECT_EQ(svg.str().rfind("<svg", 0), 0u);
}

TEST_F(BenchCommand, TakesMapsWithoutOmegaAndADimOfValues) {
  const ToolResult result =
      Run({"--map", "taylor", "--value-dim", "24", "--json", dir_ / "b.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("taylor, m = 45"), std::string::npos) << result.out;
  const auto row = nlohmann::json::parse(std::ifstream(dir_ / "b.json"))["rows"][0];
  EXPECT_EQ(row["features"], 45);
  EXPECT_EQ(row["dim"], 8);
  EXPECT_EQ(row["value_dim"], 24);
}

TEST_F(BenchCommand, TimesForgettingAndRoundedProjections) {
  const ToolResult result = Run({"--causal", "--backward", "--log-decay", "-0.1", "--omega-type",
                                 "bf16", "--json", dir_ / "b.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto row = nlohmann::json::parse(std::ifstream(dir_ / "b.json"))["rows"][0];
  EXPECT_EQ(row["omega_type"], "bf16");
  EXPECT_EQ(row["log_decay"], -0.1);
}

TEST_F(BenchCommand, RefusesWrongOptions) {
  ExpectError(RunTool({"bench", "attention", "--map", "taylor", "--dim", "300"}), 2,
              "given 300 for the map 'taylor'");
  ExpectError(Run({"--value-dim", "-1"}), 2, "--value-dim");
  ExpectError(Run({"--type", "bf16"}), 2, "--type: given without --device cuda");
  ExpectError(Run({"--log-decay", "-1"}), 2, "--log-decay: given without --causal");
  ExpectError(Run({"--causal", "--log-decay", "0.5"}), 2, "--log-decay: given 0.5");
  if (ListGpus().empty()) ExpectError(Run({"--device", "cuda:0"}), 1, "cuda");
  ExpectError(Run({"--lengths", "16,many"}), 2, "--lengths");
  ExpectError(Run({"--maps", "positiv"}), 2, "did you mean 'positive'");
  ExpectError(Run({"--map", "regularized", "--projections", "none"}), 2, "");
  ExpectError(Run({"--json", dir_ / "nowhere/b.json"}), 1, "nowhere");
  ExpectError(RunTool({"bench"}), 2, "");
}

TEST_F(BenchCommand, TimesTrainingSteps) {
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench", "train",   "--lengths", "16,32",    "--width",
                                      "8",     "--heads", "2",         "--layers", "1",
                                      "--ff",  "8",       "--rounds",  "1",        "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  };
  const ToolResult result = run({"--json", dir_ / "b.json", "--batch", "3"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("of sgemm"), std::string::npos) << result.out;
  const auto json = nlohmann::json::parse(std::ifstream(dir_ / "b.json"));
  ASSERT_EQ(json["rows"].size(), 2u);
  for (const char* key : {"length", "tokens", "seconds", "tokens_per_second", "gflops",
                          "share_of_sgemm", "planned_bytes", "measured_bytes", "shares"})
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["tokens"], 3 * row["length"].get<int64_t>());
    EXPECT_NEAR(row["tokens_per_second"].get<double>() * row["seconds"].get<double>(),
                row["tokens"].get<double>(), 1e-6);
  }
  EXPECT_EQ(json["dropout"], 0.1);
  for (const char* part : {"products", "attention", "norms", "optimizer", "rest"})
    EXPECT_GT(json["rows"][1]["shares"][part], 0) << part;
  ASSERT_EQ(run({"--json", dir_ / "b.json", "--dropout", "0"}).status, 0);
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(dir_ / "b.json"))["dropout"], 0);
  ExpectError(run({"--dropout", "2"}), 2, "dropout");
  ExpectError(run({"--lengths", "0"}), 2, "--lengths");
}

TEST_F(BenchCommand, TimesGeneration) {
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench", "generate", "--prefixes", "16,700",   "--width",
                                      "8",     "--heads",  "2",          "--layers", "1",
                                      "--ff",  "8",        "--features", "8",        "--tokens",
                                      "4",     "--rounds", "2",          "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  };
  const ToolResult result = run({"--json", dir_ / "g.json", "--positions", "rotary"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("tokens/s"), std::string::npos) << result.out;
  const auto json = nlohmann::json::parse(std::ifstream(dir_ / "g.json"));
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["prefix"], 700);
  // A state of linear attention does not grow; a cache of exact attention does.
  EXPECT_EQ(json["rows"][0]["state_bytes"], json["rows"][1]["state_bytes"]);
  EXPECT_GT(json["rows"][0]["tokens_per_second"].get<double>(), 0);
  EXPECT_GT(json["rows"][0]["share_of_copy"].get<double>(), 0);
  ASSERT_EQ(run({"--json", dir_ / "e.json", "--attention", "exact"}).status, 0);
  const auto exact = nlohmann::json::parse(std::ifstream(dir_ / "e.json"));
  EXPECT_GT(exact["rows"][1]["state_bytes"].get<int64_t>(),
            10 * exact["rows"][0]["state_bytes"].get<int64_t>());
  EXPECT_EQ(json["precision"], "f32");
  EXPECT_TRUE(json["gpu"].is_null());
  ASSERT_EQ(run({"--json", dir_ / "b.json", "--batch", "3"}).status, 0);
  const auto several = nlohmann::json::parse(std::ifstream(dir_ / "b.json"))["rows"][0];
  EXPECT_EQ(several["state_bytes"].get<int64_t>(),
            3 * json["rows"][0]["state_bytes"].get<int64_t>());
  EXPECT_NEAR(several["tokens_per_second"].get<double>() * several["step_seconds"].get<double>(), 3,
              1e-9);
  ExpectError(run({"--batch", "0"}), 2, "--batch");
  ExpectError(run({"--prefixes", "0"}), 2, "--prefixes");
  ExpectError(run({"--precision", "bf16"}), 1,
              "precision: given bf16 on cpu, expected f32; bf16 runs on a GPU");
  if (ListGpus().empty()) ExpectError(run({"--device", "cuda"}), 1, "cuda:0");
}

}  // namespace
}  // namespace favor
