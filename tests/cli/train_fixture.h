// Small runs of favor train, and what they leave.
#ifndef FAVOR_TESTS_CLI_TRAIN_FIXTURE_H_
#define FAVOR_TESTS_CLI_TRAIN_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/cli/tool_fixture.h"

namespace favor {

class TrainFixture : public ToolFixture {
 protected:
  std::string run_ = dir_ / "run";

  // Twelve steps, three evaluations, several checkpoints.
  std::vector<std::string> Words(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train",
                                      "--data",
                                      "task:copy,length=6,symbols=5",
                                      "--width",
                                      "16",
                                      "--layers",
                                      "1",
                                      "--heads",
                                      "2",
                                      "--ff",
                                      "24",
                                      "--features",
                                      "16",
                                      "--steps",
                                      "12",
                                      "--batch",
                                      "4",
                                      "--warmup",
                                      "3",
                                      "--redraw",
                                      "5",
                                      "--eval-every",
                                      "4",
                                      "--eval-batches",
                                      "2",
                                      "--save-every",
                                      "5",
                                      "--threads",
                                      "1",
                                      "--quiet",
                                      "--no-report",
                                      "--json",
                                      "--out",
                                      run_};
    // An option that is already there gets the new value.
    for (size_t i = 0; i < more.size(); ++i) {
      const auto found = std::find(words.begin(), words.end(), more[i]);
      if (more[i].starts_with("--") && found != words.end() && i + 1 < more.size()) {
        found[1] = more[++i];
      } else {
        words.push_back(more[i]);
      }
    }
    return words;
  }

  nlohmann::json Train(const std::vector<std::string>& more = {}) const {
    const ToolResult result = RunTool(Words(more));
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  // What a run learned, without times: the lines of its log, each step once and in order.
  std::string Log() const {
    std::istringstream lines(ReadText(run_ + "/log.jsonl"));
    std::string kept;
    std::set<std::pair<int64_t, bool>> seen;
    int64_t last = 0;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(json.is_object()) << line;
      if (!json.is_object()) continue;
      const auto step = json["step"].get<int64_t>();
      EXPECT_TRUE(seen.insert({step, json.contains("split")}).second) << "twice: " << line;
      EXPECT_GE(step, last) << "out of order: " << line;
      last = step;
      json.erase("tokens_per_second");
      kept += json.dump() + "\n";
    }
    return kept;
  }

  std::string Weights(const std::string& name = "last") const {
    return ReadText(run_ + "/" + name + ".safetensors");
  }

  void ExpectNoTemporaries() const {
    for (const auto& entry : std::filesystem::directory_iterator(run_))
      EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  }
};

}  // namespace favor

#endif  // FAVOR_TESTS_CLI_TRAIN_FIXTURE_H_
