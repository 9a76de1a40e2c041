// favor train --feed-forward linearised, and favor linearise.
#include "tests/cli/train_fixture.h"

namespace favor {
namespace {

class LineariseCommand : public TrainFixture {
 protected:
  nlohmann::json Linearise(const std::string& out, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"linearise", "--model",   run_, "--out",
                                      dir_ / out,  "--threads", "1",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
};

TEST_F(LineariseCommand, ModelsTrainWithLinearisedLayers) {
  Train({"--feed-forward", "linearised", "--ff-columns", "40", "--ff-degree", "4"});
  const auto model = nlohmann::json::parse(ReadText(run_ + "/config.json"))["model"];
  EXPECT_EQ(model["feed_forward"], "linearised");
  EXPECT_EQ(model["ff_columns"], 40);
  EXPECT_EQ(model["ff_degree"], 4);
  EXPECT_FALSE(model.contains("ff_range"));  // as usual
  const ToolResult shown = RunTool({"inspect", "model", "--model", run_});
  EXPECT_NE(shown.out.find("linearised feed-forward (degree 4, 58 columns)"), std::string::npos)
      << shown.out;
  const ToolResult refused = RunTool(Words({"--ff-columns", "40", "--out", dir_ / "dense"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("expected 'linearised'"), std::string::npos) << refused.err;
}

TEST_F(LineariseCommand, ConvertsADenseRun) {
  Train();
  const auto exact = Linearise("exact", {"--exact-quadratic", "--columns", "0"}),
             sketched = Linearise("sketched", {"--columns", "3"});
  EXPECT_EQ(exact["layers"].size(), 1u);
  EXPECT_TRUE(exact["layers"][0]["usable"].get<bool>());
  EXPECT_EQ(exact["layers"][0]["variance"], 0);
  EXPECT_FALSE(sketched["layers"][0]["usable"].get<bool>());
  EXPECT_EQ(exact["loss_before"], sketched["loss_before"]);
  // Two products with 24 units: 2·24·(17 + 16) operations; of 17 inputs and one bias, 1 + 17 + 153
  // columns for 16 outputs, and 153 products.
  EXPECT_EQ(exact["dense_flops"], 2 * 24 * 33);
  EXPECT_EQ(exact["flops"], 2 * 16 * (1 + 17 + 153) + 153);
  const ToolResult text = RunTool(
      {"linearise", "--model", run_, "--out", dir_ / "text", "--columns", "3", "--threads", "1"});
  EXPECT_NE(text.out.find("not usable here: straight lines are as good"), std::string::npos);
  // The new run is a run: it is evaluated, and others start from it.
  const ToolResult eval = RunTool(
      {"eval", "--model", dir_ / "exact", "--quiet", "--json", "--batch", "4", "--batches", "2"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  EXPECT_EQ(nlohmann::json::parse(eval.out)["loss"], exact["loss_after"]);
  const ToolResult further = RunTool({"train", "--init", dir_ / "exact", "--out", dir_ / "further",
                                      "--steps", "2", "--quiet", "--no-report", "--threads", "1"});
  EXPECT_EQ(further.status, 0) << further.err;
}

TEST_F(LineariseCommand, RefusesWhatCannotBe) {
  Train();
  const auto refused = [&](const std::vector<std::string>& more, const std::string& says) {
    std::vector<std::string> words = {"linearise", "--model", run_, "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  };
  refused({"--out", dir_ / "a", "--columns", "0"}, "expected at least one for each");
  refused({"--out", dir_ / "a", "--degree", "0"}, "degree");
  refused({"--out", run_}, "holds a run already");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a"));
}

}  // namespace
}  // namespace favor
