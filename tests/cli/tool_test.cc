// The tool as a whole: help, info, lab, versions, exit statuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/command.h"
#include "core/device.h"
#include "experiments/experiment.h"
#include "favor/favor.h"
#include "tests/cli/run_tool.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

TEST(Tool, HelpNamesEveryCommandWithAnExample) {
  const ToolResult help = RunTool({"help"});
  EXPECT_EQ(help.status, 0);
  for (const cli::Command& command : cli::AllCommands()) {
    EXPECT_NE(help.out.find("\n  " + command.name + " "), std::string::npos);
    const ToolResult one = RunTool({"help", command.name});
    EXPECT_EQ(one.status, 0);
    EXPECT_NE(one.out.find("Example:\n  favor " + command.name), std::string::npos) << one.out;
    EXPECT_EQ(RunTool({command.name, "--help"}).out, one.out);
    for (const cli::Command& part : command.parts) {
      EXPECT_NE(one.out.find("\n  " + part.name + " "), std::string::npos);
      const ToolResult of_part = RunTool({"help", command.name, part.name});
      EXPECT_NE(of_part.out.find("Usage: favor " + command.name + " " + part.name + " "),
                std::string::npos);
      EXPECT_EQ(RunTool({command.name, part.name, "--help"}).out, of_part.out);
    }
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
  expect({"lab", "memory", "--pairs", "0"}, "lab: --pairs: given '0', expected a whole number");
  expect({"lab", "memory", "--features", "8,many"}, "lab: --features: given 'many', expected");
  expect({"lab", "memory", "--pairs", "8,4"}, "lab: --pairs: given 8,4, expected numbers in asc");
  expect({"lab", "memory", "--pairs", "8,8"}, "lab: --pairs: given 8,8, expected numbers in asc");
  expect({"lab", "memory", "--dim", "8,16"}, "lab: --dim: given 8,16, expected one number");
  expect({"lab", "estimators", "--pairs", "8"},
         "lab: given --pairs with estimators, expected it with memory only");
  expect({"lab", "all", "--pairs", "8"},
         "lab: given --pairs with all, expected it with memory only");
  expect({"lab", "all", "--draws", "8"}, "lab: given --draws with all, expected it with one exper");
  expect({"lab", "--quick"}, "lab: given options with no experiment, expected a name or 'all'");
  expect({"lab", "tails", "--quick", "--paper"}, "lab: given --quick and --paper, expected one of");
  expect({"lab", "--dim", "8"},
         "lab: given --dim with no experiment, expected it with memory only");
  expect({"lab", "separation-self", "--n", "200.5"},
         "lab: --n: given 200.5, expected a whole number from 2 to 100000");
  expect({"lab", "separation-self", "--a1", "-1"}, "lab: --a1: given -1, expected a number from 0");
  expect({"lab", "separation-regression", "--a1", "1"},
         "lab: given --a1 with separation-regression, expected it with separation-cross, "
         "separation-self, separation-self-ones only");
  expect({"lab", "all", "--n", "8"}, "lab: given --n with all, expected it with separation-cross");
  expect({"lab", "--n", "8"}, "lab: given --n with no experiment, expected it with separation-cr");
  expect({"lab", "separation-self", "--allow"},
         "lab: given --allow with separation-self and no point, expected it with a point of "
         "separation-cross, separation-self, separation-self-ones only");
  expect(
      {"lab", "separation-regression", "--n", "100", "--allow"},
      "lab: given --allow with separation-regression, expected it with a point of separation-cr");
  expect({"attend", "--nonsense"}, "unknown option '--nonsense' (see: favor help attend)");
  expect({"state"}, "state: given no part, expected append, read, merge, show");
  expect({"state", "append", "--bogus", "1"}, "state append: unknown option '--bogus'");
  expect({"state", "append"}, "state append: --state: given nothing, expected FILE");
  expect({"state", "merge", "a", "--out", "b"}, "state merge: given too few or too many");
  expect({"report"}, "report: given nothing, expected DIR...");
  expect({"train", "--steps"}, "train: --steps: given no value, expected N");
  expect({"train", "--out", ""}, "train: --out: given an empty path");
  const ToolResult nothing = RunTool({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.out, "");
}

// An option that is given twice is refused: which value counts would be a guess.
TEST(Tool, OptionsAreGivenOnce) {
  const auto expect = [](const std::vector<std::string>& words, const std::string& says) {
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(result.err, "favor: error: " + says + "\n");
    EXPECT_EQ(result.out, "");
  };
  expect({"train", "--out", "a", "--out", "b"}, "train: --out: given twice, expected once");
  expect({"train", "--steps", "1", "--out", "a", "--steps", "1", "--steps", "2"},
         "train: --steps: given 3 times, expected once");
  expect({"train", "--resume", "--resume"}, "train: --resume: given twice, expected once");
  expect({"train", "--preset", "tiny", "--preset", "tiny"},
         "train: --preset: given twice, expected once");
  expect({"inspect", "model", "--causal", "--no-causal"},
         "inspect model: --causal, --no-causal: given twice, expected once");
  expect({"generate", "--prompt", "a", "--prompt", ""},
         "generate: --prompt: given twice, expected once");
  expect({"generate", "--temperature=1", "--temperature", "0"},
         "generate: --temperature: given twice, expected once");
  expect({"state", "append", "--seed", "1", "--seed", "2"},
         "state append: --seed: given twice, expected once");
  expect({"attend", "--center-keys", "--center-keys"},
         "attend: --center-keys: given twice, expected once");
  // Checks every command that has --json as a flag.
  int commands = 0;
  const auto check = [&](const std::vector<std::string>& words, const std::string& path) {
    std::vector<std::string> help = words;
    help.insert(help.begin(), "help");
    if (RunTool(help).out.find("\n  --json  ") == std::string::npos) return;
    ++commands;
    std::vector<std::string> twice = words;
    twice.insert(twice.end(), {"--json", "--json"});
    expect(twice, path + ": --json: given twice, expected once");
  };
  for (const cli::Command& command : cli::AllCommands()) {
    if (command.parts.empty()) check({command.name}, command.name);
    for (const cli::Command& part : command.parts)
      check({command.name, part.name}, command.name + " " + part.name);
  }
  EXPECT_GT(commands, 10);
}

// Both ends of a range are allowed, what lies beyond them is refused.
TEST(Tool, RangesIncludeTheirEnds) {
  const auto inspect = [](const std::string& batch) {
    return RunTool(
        {"inspect", "model", "--preset", "tiny", "--length", "1", "--json", "--batch", batch});
  };
  for (const char* batch : {"1", "1048576"})
    EXPECT_EQ(inspect(batch).status, 0) << inspect(batch).err;
  for (const char* batch : {"0", "1048577"}) {
    EXPECT_EQ(inspect(batch).status, 2) << batch;
    EXPECT_NE(inspect(batch).err.find("expected a whole number from 1 to 1048576"),
              std::string::npos)
        << inspect(batch).err;
  }
}

// Values of a list may come together or one by one.
TEST(Tool, ListsMayBeGivenInParts) {
  const TempDir dir;
  const auto lengths = [&](const std::vector<std::string>& given) {
    std::vector<std::string> words = {"bench",   "attention", "--heads",   "1",          "--dim",
                                      "8",       "--rounds",  "1",         "--features", "8",
                                      "--quiet", "--json",    dir / "json"};
    words.insert(words.end(), given.begin(), given.end());
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    std::set<int64_t> measured;
    const auto json = nlohmann::json::parse(ReadText(dir / "json"));
    for (const auto& row : json["rows"]) measured.insert(row["length"].get<int64_t>());
    return measured;
  };
  EXPECT_EQ(lengths({"--lengths", "32,64"}), (std::set<int64_t>{32, 64}));
  EXPECT_EQ(lengths({"--lengths", "32", "--lengths", "64"}), (std::set<int64_t>{32, 64}));
}

TEST(Tool, HelpSaysWhatIsRequiredAndWhatIsUsual) {
  EXPECT_EQ(RunTool({"help", "state", "apend"}).status, 2);
  const std::string append = RunTool({"help", "state", "append"}).out;
  EXPECT_NE(append.find("append --state FILE --k K.npy --v V.npy [options]"), std::string::npos);
  EXPECT_NE(append.find("--state FILE"), std::string::npos);
  EXPECT_NE(append.find("The state's file (required)"), std::string::npos);
  EXPECT_NE(append.find("\nSettings of a new file"), std::string::npos);
  const std::string model = RunTool({"help", "inspect", "model"}).out;
  EXPECT_NE(model.find("--causal, --no-causal"), std::string::npos) << model;
  EXPECT_EQ(model.find("{false}"), std::string::npos) << model;
  const std::string train = RunTool({"help", "train"}).out;
  EXPECT_NE(train.find("--data FILE|task:NAME"), std::string::npos) << train;
  EXPECT_NE(train.find("the preset's"), std::string::npos) << train;
}

// Daemons and some tools start others with closed streams: the next file that is opened must not
// take the place of a standard stream.
TEST(Tool, ClosedStreamsAreNotFiles) {
  const TempDir dir;
  const std::string run = dir / "run";
  const ToolResult result = RunToolUnder({"/bin/sh", "-c", "exec \"$0\" \"$@\" <&- 2>&-"},
                                         {"train",   "--data",   "task:copy,length=6,symbols=5",
                                          "--width", "8",        "--heads",
                                          "1",       "--layers", "1",
                                          "--ff",    "8",        "--features",
                                          "8",       "--steps",  "3",
                                          "--batch", "2",        "--no-report",
                                          "--out",   run});
  EXPECT_EQ(result.status, 0);
  std::istringstream log(ReadText(run + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) EXPECT_EQ(line.front(), '{') << line;
  // Lost output is a failure; lost messages are not.
  EXPECT_EQ(RunToolUnder({"/bin/sh", "-c", "exec \"$0\" \"$@\" >&-"}, {"info"}).status, 1);
  EXPECT_EQ(RunToolUnder({"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>/dev/full"}, {}).status, 2);
}

// When a reader goes away, writing to it ends, and nothing else.
TEST(Tool, WorkGoesOnWhenNobodyWatches) {
  const TempDir dir;
  const ToolResult result =
      RunToolUnder({"/bin/bash", "-c", "\"$0\" \"$@\" 2> >(exec sleep 0)"},
                   {"lab", "estimators", "--draws", "20", "--out", dir / "run"});
  EXPECT_EQ(result.status, 0) << result.err;
  const ToolResult piped = RunToolUnder(
      {"/bin/bash", "-o", "pipefail", "-c", "\"$0\" \"$@\" | exec sleep 0"}, {"info", "--json"});
  EXPECT_TRUE(piped.status == 141 || piped.status == 0) << piped.status;
  EXPECT_EQ(piped.err, "");
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
  EXPECT_EQ(info["experiments"].size(), experiments::AllExperiments().size());
  for (const FeatureMapInfo& map : Maps()) EXPECT_NE(text.out.find(map.name), std::string::npos);
  // Each GPU library that favor can use is listed on its own line, found or not.
  EXPECT_EQ(info["gpu_libraries"].size(), BuiltWithCuda() ? 2u : 0u);
  for (const auto& library : info["gpu_libraries"]) {
    const bool found = !library["file"].is_null();
    const std::string what = library[found ? "file" : "error"];
    EXPECT_NE(text.out.find("\nlibrary " + what + (found ? ": found\n" : "\n")), std::string::npos)
        << text.out;
  }
}

TEST(Tool, LabWritesAReportAndNumbers) {
  const TempDir dir;
  const ToolResult result =
      RunTool({"lab", "estimators", "--draws", "20", "--out", dir / "run", "--seed", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("lab: 1 experiment, about"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("estimators: "), std::string::npos);  // progress, as plain lines
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_NE(ReadText(dir / "run/report.html").find("<svg"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(ReadText(dir / "run/estimators/results.json"))["draws"], 20);
  const ToolResult again = RunTool({"lab", "estimators", "--draws", "20", "--out", dir / "b",
                                    "--seed", "2", "--threads", "3", "--quiet", "--json"});
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(nlohmann::json::parse(again.out),
            nlohmann::json::parse(ReadText(dir / "run/estimators/results.json")));
  WriteText(dir / "file", "");
  EXPECT_EQ(RunTool({"lab", "estimators", "--draws", "20", "--out", dir / "file/x"}).status, 1);
}

TEST(Tool, LabTakesTheOptionsOfAnExperiment) {
  const TempDir dir;
  const ToolResult result =
      RunTool({"lab", "memory", "--draws", "2", "--out", dir / "run", "--pairs", "1,4",
               "--features", "3", "--dim", "5", "--feature-dims", "2", "--quiet", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto results = nlohmann::json::parse(result.out);
  EXPECT_EQ(results["options"]["pairs"], (std::vector<int>{1, 4}));
  EXPECT_EQ(results["options"]["dim"], (std::vector<int>{5}));
  EXPECT_EQ(results["recall"].size(), 2u * (1 + 3 + 1));
  EXPECT_EQ(results["recall"][0]["state_bytes"], 1 * 2 * 5 * 4);
  EXPECT_NE(ReadText(dir / "run/report.html")
                .find("favor lab memory --draws 2 --seed 0 --dim 5 --feature-dims 2 --features 3 "
                      "--pairs 1,4"),
            std::string::npos);
}

// A point instead of the sweeps; one that breaks a rule is refused, or allowed.
TEST(Tool, LabMeasuresOnePoint) {
  const TempDir dir;
  const std::vector<std::string> words = {
      "lab",   "separation-cross", "--draws", "20",    "--d", "12",
      "--out", dir / "run",        "--quiet", "--json"};
  const ToolResult refused = RunTool(words);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("given n = 200 and d = 12, expected n to be a multiple of d − 1"),
            std::string::npos)
      << refused.err;
  std::vector<std::string> allowed = words;
  allowed.push_back("--allow");
  const ToolResult result = RunTool(allowed);
  ASSERT_EQ(result.status, 0) << result.err;
  const auto results = nlohmann::json::parse(result.out);
  EXPECT_EQ(results["point"]["values"]["d"], 12);
  EXPECT_EQ(results["measured"]["outside"], true);
  EXPECT_NE(ReadText(dir / "run/report.html")
                .find("favor lab separation-cross --draws 20 --seed 0 --d 12 --allow"),
            std::string::npos);
}

// What is there is left as it is; what is missing is done.
TEST(Tool, LabGoesOnWhereItWas) {
  const TempDir dir;
  const std::vector<std::string> all = {"lab", "all", "--quick", "--out", dir / "lab", "--resume"};
  const ToolResult first = RunTool(all);
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string count = std::to_string(experiments::AllExperiments().size());
  EXPECT_NE(first.err.find("lab: " + count + " experiments, about"), std::string::npos);
  for (const experiments::Experiment& experiment : experiments::AllExperiments())
    EXPECT_TRUE(
        std::filesystem::exists(dir / "lab/" + std::string(experiment.name) + "/results.json"));
  std::filesystem::remove(dir / "lab/tails/results.json");
  const std::string kept = ReadText(dir / "lab/memory/section.html");
  const ToolResult second = RunTool(all);
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_NE(second.err.find("lab: 1 experiment, about"), std::string::npos) << second.err;
  EXPECT_NE(second.out.find("tails: how often"), std::string::npos);
  // Claims one below the other: what is said, measured, and the verdict.
  EXPECT_NE(second.out.find("Theorems 3 and 5, as printed (ICLR 2021): P[estimate > a]"),
            std::string::npos);
  EXPECT_NE(second.out.find("\n  measured: "), std::string::npos);
  EXPECT_NE(second.out.find("\n  does not hold\n"), std::string::npos) << second.out;
  EXPECT_EQ(second.out.find("memory: "), std::string::npos);
  EXPECT_EQ(ReadText(dir / "lab/memory/section.html"), kept);  // its time too
  EXPECT_NE(ReadText(dir / "lab/report.html").find("id=\"tails\""), std::string::npos);

  // Nothing left: the report is made again, and JSON is what was found before.
  std::filesystem::remove(dir / "lab/report.html");
  const ToolResult third =
      RunTool({"lab", "tails", "--quick", "--out", dir / "lab", "--resume", "--json"});
  ASSERT_EQ(third.status, 0) << third.err;
  EXPECT_EQ(third.err, "lab: nothing is left to do\n");
  EXPECT_EQ(nlohmann::json::parse(third.out)["experiment"], "tails");
  EXPECT_TRUE(std::filesystem::exists(dir / "lab/report.html"));
}

TEST(Tool, LabWithoutANameListsTheExperiments) {
  const std::string list = RunTool({"lab"}).out;
  for (const experiments::Experiment& experiment : experiments::AllExperiments())
    EXPECT_NE(list.find(std::string(experiment.name) + " "), std::string::npos) << list;
}

}  // namespace
}  // namespace favor
