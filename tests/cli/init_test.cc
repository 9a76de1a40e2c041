// favor train --init: runs that start from the weights of others.
#include "tests/cli/train_fixture.h"

namespace favor {
namespace {

class InitOption : public TrainFixture {};

// What is not given is as in the run that it starts from; the order of the data continues.
TEST_F(InitOption, StartsFromAnotherRun) {
  Train({"--attention", "exact", "--seed", "4"});
  const std::string first = run_;
  const auto tune = [&](const std::string& name, std::vector<std::string> more) {
    run_ = dir_ / name;
    std::vector<std::string> words = {"train",     "--init", first,     "--out",
                                      run_,        "--json", "--quiet", "--no-report",
                                      "--threads", "1",      "--steps", "3"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  };
  const auto config = [&] { return nlohmann::json::parse(ReadText(run_ + "/config.json")); };
  const auto longer = tune("longer", {});
  EXPECT_EQ(longer["start"]["loss"], longer["start"]["own_loss"]);
  EXPECT_EQ(config()["model"]["attention"], "exact");
  EXPECT_EQ(config()["model"]["width"], 16);
  EXPECT_EQ(config()["training"]["batch"], 4);
  EXPECT_EQ(config()["training"]["steps"], 3);
  EXPECT_EQ(config()["training"]["seed"], 4);
  const int64_t read = config()["training"]["first_batch"].get<int64_t>();
  EXPECT_TRUE(read == 4 || read == 8 || read == 12) << read;  // the best of three evaluations
  // Twice as many sequences at a time: half as many batches were read.
  tune("wider", {"--batch", "8"});
  EXPECT_EQ(config()["training"]["first_batch"].get<int64_t>(), (read + 1) / 2);
  const auto linear = tune("linear", {"--attention", "linear", "--seed", "5", "--freeze", "1"});
  EXPECT_NE(linear["start"]["loss"], linear["start"]["own_loss"]);
  EXPECT_EQ(config()["init"], first);
  EXPECT_FALSE(config()["training"].contains("first_batch"));
  EXPECT_EQ(config()["training"]["freeze"], 1);
  const ToolResult report = RunTool({"report", run_, "--out", dir_ / "report.html", "--quiet"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_NE(ReadText(dir_ / "report.html")
                .find("starting from the weights of " + first +
                      ", of which the embedding and the first 1 layers were kept. The figures"),
            std::string::npos);
  // A config says all: it repeats the run, although its defaults are not the first run's.
  const ToolResult again = RunTool({"train", "--config", run_ + "/config.json", "--out",
                                    dir_ / "again", "--quiet", "--no-report", "--threads", "1"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(ReadText(dir_ / "again/last.safetensors"), Weights());
  EXPECT_NE(again.out.find("start: loss"), std::string::npos) << again.out;
}

TEST_F(InitOption, RefusesToStartFromWhatDoesNotFit) {
  Train();
  const auto expect = [&](const std::vector<std::string>& more, const std::string& says) {
    std::vector<std::string> words = {"train", "--init", run_, "--out", dir_ / "out", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = RunTool(words);
    EXPECT_NE(result.status, 0);
    ExpectError(result, result.status, says);
  };
  expect({"--width", "32"}, "init: embedding.weight is");
  expect({"--freeze", "2"}, "expected 0 to 1");
  expect({"--data", "task:copy,length=6,symbols=9"}, "init: ");
  WriteText(dir_ / "broken.safetensors", "no");
  const ToolResult broken =
      RunTool({"train", "--init", dir_ / "broken.safetensors", "--out", dir_ / "out"});
  ExpectError(broken, 1, "broken.safetensors");
}

}  // namespace
}  // namespace favor
