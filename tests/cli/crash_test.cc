// Killed at any moment, a run that is resumed ends in the same numbers, bit for bit.
#include <random>

#include "tests/cli/train_fixture.h"

namespace favor {
namespace {

class Crash : public TrainFixture {
 protected:
  void SetUp() override {
    Train();
    log_ = Log();
    last_ = Weights("last");
    best_ = Weights("best");
    std::filesystem::remove_all(run_);
  }

  void ResumeAndCompare(const std::string& where) {
    Train({"--resume"});
    EXPECT_TRUE(Log() == log_) << where;
    EXPECT_TRUE(Weights("last") == last_) << where;
    EXPECT_TRUE(Weights("best") == best_) << where;
    ExpectNoTemporaries();
    std::filesystem::remove_all(run_);
  }

  std::string log_, last_, best_;
};

TEST_F(Crash, AtRandomMoments) {
  std::mt19937 random(1);
  int killed = 0;
  for (int i = 0; i < 12; ++i) {
    // Killed several times in a row.
    for (int kill = 0; kill < 3; ++kill) {
      const auto moment = static_cast<int64_t>(random() % 60000);
      killed += RunToolAndKill(Words({"--resume"}), moment).status == 128 + 9 ? 1 : 0;
    }
    ResumeAndCompare("round " + std::to_string(i));
  }
  EXPECT_GT(killed, 6) << "the run is over before it is killed";
}

// The system calls of a trace in order, with whether they belong to a checkpoint: from the creation
// of its temporary file to the close after its sync.
struct Call {
  std::string name;
  int64_t number;  // among calls of this name, from 1
};

std::vector<Call> CallsOfCheckpoint(const std::string& trace, int which) {
  std::istringstream lines(trace);
  std::map<std::string, int64_t> counts;
  std::vector<Call> calls;
  int seen = 0;
  int after_rename = -1;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of("0123456789 "), end = line.find('(');
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    const std::string name = line.substr(begin, end - begin);
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
      continue;
    const int64_t number = ++counts[name];
    if (name == "openat" && line.find(".favor-") != std::string::npos) ++seen;
    if (seen == which && after_rename < 6) {
      calls.push_back({name, number});
      if (name == "rename" || after_rename >= 0) ++after_rename;
    }
  }
  return calls;
}

TEST_F(Crash, AtEverySystemCallOfACheckpoint) {
  const std::string trace = dir_ / "trace";
  const ToolResult traced = RunToolUnder({"strace", "-f", "-o", trace}, Words());
  if (traced.status != 0) GTEST_SKIP() << "no strace, or no right to trace: " << traced.err;
  std::filesystem::remove_all(run_);
  // Temporaries in order: config.json, the first checkpoint, the log, then those of evaluations
  // and checkpoints: best at step 4, last at step 5, best at step 8.
  int injected = 0;
  for (const int which : {4, 5}) {
    const std::vector<Call> calls = CallsOfCheckpoint(ReadText(trace), which);
    ASSERT_GT(calls.size(), 10u);
    bool renamed = false;
    for (const Call& call : calls) {
      renamed = renamed || call.name == "rename";
      const std::string where = call.name + " " + std::to_string(call.number);
      const ToolResult result =
          RunToolUnder({"strace", "-f", "-o", "/dev/null", "-e",
                        "inject=" + call.name + ":signal=KILL:when=" + std::to_string(call.number)},
                       Words());
      EXPECT_NE(result.status, 0) << where;
      ++injected;
      ResumeAndCompare(where);
    }
    EXPECT_TRUE(renamed);
  }
  EXPECT_GT(injected, 30);
}

// A rename is durable once its folder is synced. So every file is synced before it is renamed, and
// the folder after that.
TEST_F(Crash, RenamesAreSyncedWithTheirFolder) {
  const std::string trace = dir_ / "trace";
  const ToolResult traced =
      RunToolUnder({"strace", "-f", "-y", "-e", "trace=rename,fsync", "-o", trace}, Words());
  if (traced.status != 0) GTEST_SKIP() << "no strace, or no right to trace: " << traced.err;
  const std::string folder = std::filesystem::canonical(run_).string();
  int renamed_checkpoints = 0;
  bool file_synced = false, folder_synced = true;
  std::string last;
  std::istringstream lines(ReadText(trace));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("fsync(") != std::string::npos) {
      file_synced = file_synced || line.find("<" + folder + "/.favor-") != std::string::npos;
      folder_synced = folder_synced || line.find("<" + folder + ">") != std::string::npos;
    }
    if (line.find("rename(") == std::string::npos) continue;
    EXPECT_TRUE(folder_synced) << last;
    EXPECT_TRUE(file_synced) << line;
    renamed_checkpoints += line.find(".safetensors") != std::string::npos ? 1 : 0;
    file_synced = folder_synced = false;
    last = line;
  }
  EXPECT_TRUE(folder_synced) << last;
  // last.safetensors at steps 0, 5, 10 and 12, and best.safetensors at least once.
  EXPECT_GE(renamed_checkpoints, 5);
}

}  // namespace
}  // namespace favor
