// The tool as a whole: help, info, lab, versions, exit statuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "favor/favor.h"
#include "lab/experiment.h"
#include "tests/cli/run_tool.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

TEST(Tool, HelpNamesEveryCommandWithAnExample) {
  const ToolResult help = RunTool({"help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"features", "help", "info", "lab"}) {
    EXPECT_NE(help.out.find(command), std::string::npos);
    const ToolResult one = RunTool({"help", command});
    EXPECT_EQ(one.status, 0);
    EXPECT_NE(one.out.find("Example:\n  favor " + std::string(command)), std::string::npos)
        << one.out;
    EXPECT_EQ(RunTool({command, "--help"}).out, one.out);
  }
  EXPECT_EQ(RunTool({"--help"}).out, help.out);
  EXPECT_EQ(RunTool({"--version"}).out, "favor " FAVOR_VERSION "\n");
}

TEST(Tool, WrongUsageIsOneLineAndStatusTwo) {
  const auto expect = [](const std::vector<std::string>& words, const std::string& says) {
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  };
  expect({"featurs"}, "did you mean 'features'?");
  expect({"--jsn"}, "unknown option '--jsn'");
  expect({"help", "inf"}, "did you mean 'info'?");
  expect({"info", "--jason"}, "did you mean '--json'?");
  expect({"lab", "estimator"}, "did you mean 'estimators'?");
  const ToolResult nothing = RunTool({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.out, "");
}

TEST(Tool, HelpGoesIntoParts) {
  const ToolResult help = RunTool({"help", "state", "append"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("Usage: favor state append"), std::string::npos) << help.out;
  EXPECT_EQ(RunTool({"help", "state", "apend"}).status, 2);
}

TEST(Tool, InfoListsWhatTheLibraryHas) {
  const ToolResult text = RunTool({"info"}), json = RunTool({"info", "--json"});
  EXPECT_EQ(text.status, 0);
  const auto info = nlohmann::json::parse(json.out);
  EXPECT_EQ(info["version"], FAVOR_VERSION);
  EXPECT_GE(info["threads"].get<int>(), 1);
  EXPECT_EQ(info["maps"].size(), Maps().size());
  EXPECT_EQ(info["projections"].size(), Projections().size());
  EXPECT_EQ(info["tasks"].size(), 3u);
  EXPECT_EQ(info["experiments"].size(), lab::AllExperiments().size());
  for (const FeatureMapInfo& map : Maps()) EXPECT_NE(text.out.find(map.name), std::string::npos);
}

TEST(Tool, LabWritesAReportAndNumbers) {
  const TempDir dir;
  const ToolResult result =
      RunTool({"lab", "estimators", "--draws", "20", "--out", dir / "run", "--seed", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("estimators: "), std::string::npos);  // progress, as plain lines
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_NE(ReadText(dir / "run/report.html").find("<svg"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(ReadText(dir / "run/results.json"))["draws"], 20);
  const ToolResult again = RunTool({"lab", "estimators", "--draws", "20", "--out", dir / "b",
                                    "--seed", "2", "--threads", "3", "--quiet", "--json"});
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(nlohmann::json::parse(again.out),
            nlohmann::json::parse(ReadText(dir / "run/results.json")));
  WriteText(dir / "file", "");
  EXPECT_EQ(RunTool({"lab", "estimators", "--draws", "20", "--out", dir / "file/x"}).status, 1);
}

TEST(Tool, LabWithoutANameListsTheExperiments) {
  EXPECT_NE(RunTool({"lab"}).out.find("estimators"), std::string::npos);
}

}  // namespace
}  // namespace favor
