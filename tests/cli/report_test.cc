// favor report, and the reports that runs get.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/cli/generate_fixture.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ReportCommand : public GenerateCommand {};

TEST_F(ReportCommand, RunsGetAReport) {
  ASSERT_EQ(Train(proteins_, run_).status, 0);
  const std::string page = Read(run_ + "/report.html");
  for (const char* part : {"4-gram", "perplexity", "Samples", "favor train", "Frequencies",
                           "median", "learning_rate", "<svg"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos) << "self-contained";
  // The command in it makes the same weights again.
  const size_t at = page.find("<pre>favor train") + 5;
  const std::string command = page.substr(at, page.find(" --out", at) - at);
  std::istringstream words(command);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  arguments.erase(arguments.begin());
  arguments.insert(arguments.end(), {"--out", dir_ / "again", "--no-report", "--quiet"});
  ASSERT_EQ(RunTool(arguments).status, 0) << command;
  EXPECT_EQ(Read(run_ + "/best.safetensors"), Read(dir_ / "again/best.safetensors"));
}

// Names of folders reach the program that draws plots: it must not execute them.
TEST_F(ReportCommand, NamesOfFoldersAreNoCommands) {
  const std::string folder = dir_ / "`touch oops` 'a\"$(touch oops)";
  ASSERT_EQ(Train(proteins_, folder).status, 0);
  EXPECT_FALSE(fs::exists("oops"));
  const std::string page = Read(folder + "/report.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("favor report '"), std::string::npos) << "quoted for a shell";
}

TEST_F(ReportCommand, ReportsCompare) {
  ASSERT_EQ(Train(proteins_, run_, {"--no-report"}).status, 0);
  ASSERT_EQ(Train(proteins_, dir_ / "exact", {"--no-report", "--attention", "exact"}).status, 0);
  const std::string page = dir_ / "both.html";
  const ToolResult result = RunTool(
      {"report", run_, dir_ / "exact", "--out", page, "--lengths", "32,64", "--json", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_GT(json["runs"][1]["microseconds_per_token"]["64"], 0);
  EXPECT_EQ(json["runs"][0]["score"]["targets"], json["baselines"]["empirical"]["targets"]);
  // The same figures as favor eval.
  const Json eval =
      Json::parse(RunTool({"eval", "--model", run_, "--split", "test", "--json", "--quiet"}).out);
  EXPECT_EQ(eval["tokens"], json["runs"][0]["score"]["targets"]);
  EXPECT_NEAR(eval["loss"].get<double>(), json["runs"][0]["score"]["loss"].get<double>(), 1e-9);
  const std::string html = Read(page);
  // Every run has a row with its own figures.
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = json["runs"][i]["folder"], attention = json["runs"][i]["attention"];
    const std::string row = fmt::format("<td>{}: {}</td><td class=\"n\">{:.4f}</td><td",
                                        fs::path(name).filename().string(), attention,
                                        json["runs"][i]["score"]["loss"].get<double>());
    EXPECT_NE(html.find(row), std::string::npos) << row;
  }
  EXPECT_NE(json["runs"][0]["score"]["loss"], json["runs"][1]["score"]["loss"]);
  // The commands to repeat it: both runs, then the page.
  const size_t at = html.find("<pre>favor train");
  ASSERT_NE(at, std::string::npos);
  std::istringstream lines(html.substr(at + 5, html.find("</pre>", at) - at - 5));
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_TRUE(first.ends_with(" --out " + run_)) << first;
  EXPECT_NE(second.find(" --attention exact "), std::string::npos) << second;
  EXPECT_EQ(third,
            "favor report " + run_ + " " + (dir_ / "exact") + " --lengths 32,64 --out " + page);

  EXPECT_EQ(RunTool({"report"}).status, 2);
  const ToolResult none = RunTool({"report", dir_ / "none"});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("holds no run"), std::string::npos) << none.err;
  EXPECT_EQ(RunTool({"report", run_, "--out", dir_ / "no/such/place.html"}).status, 1);
}

}  // namespace
}  // namespace favor
