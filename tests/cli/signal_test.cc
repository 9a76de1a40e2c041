// Ctrl-C and SIGTERM: a run stops cleanly, and the resumed run ends in the same bytes.
#include <signal.h>
#include <unistd.h>

#include "models/checkpoint.h"
#include "tests/cli/train_fixture.h"

namespace favor {
namespace {

class Signals : public TrainFixture {
 protected:
  // A run long enough to be stopped in the middle, which saves only at its beginning and end.
  std::vector<std::string> LongRun(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words =
        Words({"--steps", "1500", "--eval-every", "500", "--save-every", "0"});
    // A report would be written at the end, and progress shown.
    std::erase(words, "--no-report");
    std::erase(words, "--quiet");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  int64_t Logged() const {
    const std::string log = ReadText(run_ + "/log.jsonl");
    return std::count(log.begin(), log.end(), '\n');
  }

  // Waits until the run is under way, calls `signal`, and waits for its end. A process that ended
  // before the signal is started again.
  template <class Signal>
  ToolResult RunAnd(const Signal& signal) const {
    for (int trial = 0;; ++trial) {
      std::filesystem::remove_all(run_);
      RunningTool tool(LongRun());
      while (Logged() < 3 && !tool.Ended()) usleep(500);
      signal(tool);
      const ToolResult result = tool.Wait();
      if (result.status != 0 || trial == 20) return result;
    }
  }

  int64_t SavedStep() const {
    const models::Checkpoint last(run_ + "/last.safetensors");
    return nlohmann::json::parse(last.info().state)["step"].get<int64_t>();
  }

  // Completes the run and compares it with one that was never stopped.
  void ResumeAndCompare() {
    const ToolResult resumed = RunTool(LongRun({"--resume", "--no-report"}));
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    const std::string log = Log(), last = Weights("last"), best = Weights("best");
    ExpectNoTemporaries();
    std::filesystem::remove_all(run_);
    ASSERT_EQ(RunTool(LongRun({"--no-report"})).status, 0);
    EXPECT_TRUE(Log() == log);
    EXPECT_TRUE(Weights("last") == last);
    EXPECT_TRUE(Weights("best") == best);
  }
};

TEST_F(Signals, ARunSavesAndSaysHowToContinue) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const ToolResult stopped = RunAnd([&](const RunningTool& tool) { tool.Signal(signal); });
    EXPECT_EQ(stopped.status, 128 + signal) << stopped.err;
    EXPECT_EQ(stopped.killed_by, 0) << "ends by itself";
    const nlohmann::json result = nlohmann::json::parse(stopped.out);
    EXPECT_EQ(result["interrupted"], true);
    EXPECT_EQ(result["stopped_early"], false);
    const int64_t step = SavedStep();
    EXPECT_GT(step, 0);
    EXPECT_LT(step, 1500);
    EXPECT_EQ(result["steps"], step);
    EXPECT_TRUE(stopped.err.ends_with("train: stopped at step " + std::to_string(step) +
                                      " of 1500, continue with: favor train --out " + run_ +
                                      " --resume\n"))
        << stopped.err;
    EXPECT_FALSE(std::filesystem::exists(run_ + "/report.html"));
    ExpectNoTemporaries();

    const ToolResult resumed = RunTool(LongRun({"--resume", "--no-report"}));
    EXPECT_NE(resumed.err.find("train: continues at step " + std::to_string(step) + " of 1500\n"),
              std::string::npos)
        << resumed.err;
    EXPECT_EQ(nlohmann::json::parse(resumed.out)["interrupted"], false);
    // Nothing is left to do: the tool says nothing about it.
    EXPECT_EQ(RunTool(LongRun({"--resume", "--no-report"})).err, "");
  }
}

TEST_F(Signals, AResumedRunEndsInTheSameBytes) {
  ASSERT_EQ(RunAnd([](const RunningTool& tool) { tool.Signal(SIGINT); }).status, 128 + SIGINT);
  ResumeAndCompare();
}

// Both signals are sent while the process is stopped, so that no step can end between them.
TEST_F(Signals, ASecondSignalEndsItAtOnce) {
  const ToolResult result = RunAnd([](const RunningTool& tool) {
    tool.Freeze();
    tool.Signal(SIGINT);
    tool.Signal(SIGTERM);
    tool.Signal(SIGCONT);
  });
  EXPECT_TRUE(result.killed_by == SIGINT || result.killed_by == SIGTERM) << result.status;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.find("continue with"), std::string::npos) << result.err;
  EXPECT_EQ(SavedStep(), 0);
  ResumeAndCompare();
}

// Shells start background jobs with SIGINT ignored: Ctrl-C is not meant for them.
TEST_F(Signals, IgnoredSignalsStayIgnored) {
  std::vector<std::string> words = {"/bin/sh", "-c", "trap '' INT; exec \"$0\" \"$@\"", FAVOR_TOOL};
  const std::vector<std::string> more = LongRun({"--no-report"});
  words.insert(words.end(), more.begin(), more.end());
  RunningTool tool = RunningTool::Command(words);
  while (Logged() < 3 && !tool.Ended()) usleep(500);
  tool.Signal(SIGINT);
  EXPECT_EQ(tool.Wait().status, 0);
}

}  // namespace
}  // namespace favor
