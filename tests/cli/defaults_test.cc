// What favor train begins with if no option says otherwise.
#include "tests/cli/train_fixture.h"

namespace favor {
namespace {

class TrainDefaults : public TrainFixture {
 protected:
  // The config of a run with these options.
  nlohmann::json ConfigWith(const std::vector<std::string>& more) {
    run_ = dir_ / ("run" + std::to_string(++runs_));
    std::vector<std::string> words = {
        "train", "--width", "16",          "--layers", "1", "--heads",
        "2",     "--steps", "2",           "--batch",  "2", "--eval-batches",
        "1",     "--quiet", "--no-report", "--out",    run_};
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--data") == more.end())
      words.insert(words.end(), {"--data", "task:copy,length=6,symbols=5"});
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(ReadText(run_ + "/config.json"));
  }

  static void ExpectSettings(const nlohmann::json& config, const std::string& map,
                             const std::string& positions, int convolution,
                             const std::string& decay, int redraw) {
    const auto& model = config["model"];
    EXPECT_EQ(model["map"], map);
    EXPECT_EQ(model["positions"], positions);
    EXPECT_EQ(model["convolution"], convolution);
    EXPECT_EQ(model.value("decay", "none"), decay);
    EXPECT_EQ(config["training"]["redraw"], redraw);
  }

  int runs_ = 0;
};

TEST_F(TrainDefaults, AreTheRecommendedSettings) {
  ExpectSettings(ConfigWith({}), "relu", "rotary", 4, "token", 0);
  ExpectSettings(ConfigWith({"--attention", "exact"}), "relu", "rotary", 4, "none", 0);
  ExpectSettings(ConfigWith({"--heads-of", "relu:1:decay=fixed,taylor:1:dim=4"}), "relu", "rotary",
                 4, "none", 0);
  ExpectSettings(ConfigWith({"--data", "task:listops,length=8", "--task", "classify"}), "relu",
                 "rotary", 4, "none", 0);
  ExpectSettings(ConfigWith({"--map", "elu", "--decay", "none", "--positions", "learned",
                             "--redraw", "7", "--convolution", "0"}),
                 "elu", "learned", 0, "none", 7);
}

TEST_F(TrainDefaults, OfThePaper) {
  const auto paper = ConfigWith({"--paper"});
  ExpectSettings(paper, "positive", "learned", 0, "none", 1000);
  const std::vector<std::string> again = {"train",    "--paper", "--out",      run_,
                                          "--resume", "--quiet", "--no-report"};
  EXPECT_EQ(RunTool(again).status, 0);
  ExpectSettings(ConfigWith({"--paper", "--map", "relu"}), "relu", "learned", 0, "none", 1000);
  ConfigWith({});
  const ToolResult differs =
      RunTool({"train", "--paper", "--out", run_, "--resume", "--quiet", "--no-report"});
  EXPECT_EQ(differs.status, 2);
  EXPECT_NE(differs.err.find("but the run in"), std::string::npos) << differs.err;
  for (const std::vector<std::string>& both :
       {std::vector<std::string>{"--config", run_ + "/config.json"}, {"--init", run_}}) {
    std::vector<std::string> words = {"train", "--paper", "--out", dir_ / "out"};
    words.insert(words.end(), both.begin(), both.end());
    ExpectError(RunTool(words), 2, "--paper: given with --config or --init");
  }
}

// A config file, and a run that another starts from, say all.
TEST_F(TrainDefaults, AConfigIsNotChanged) {
  ConfigWith({"--paper"});
  const std::string first = run_;
  const auto repeated = ConfigWith({"--config", first + "/config.json"});
  ExpectSettings(repeated, "positive", "learned", 0, "none", 1000);
  ExpectSettings(ConfigWith({"--init", first}), "positive", "learned", 0, "none", 1000);
}

}  // namespace
}  // namespace favor
