#include "tests/cli/run_tool.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace favor {

namespace {

std::vector<std::string> Words(std::vector<std::string> program,
                               const std::vector<std::string>& arguments) {
  program.emplace_back(FAVOR_TOOL);
  program.insert(program.end(), arguments.begin(), arguments.end());
  return program;
}

}  // namespace

RunningTool::RunningTool(const std::vector<std::string>& arguments) { Start(Words({}, arguments)); }

RunningTool RunningTool::Command(std::vector<std::string> words) {
  RunningTool tool;
  tool.Start(std::move(words));
  return tool;
}

RunningTool::RunningTool(RunningTool&& other) noexcept
    : dir_(std::move(other.dir_)), child_(std::exchange(other.child_, 0)) {}

RunningTool::~RunningTool() {
  if (child_ == 0) return;
  Signal(SIGKILL);
  waitpid(child_, nullptr, 0);
}

void RunningTool::Start(std::vector<std::string> words) {
  dir_ = std::make_unique<TempDir>();
  const std::string out = *dir_ / "out", err = *dir_ / "err";
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  if (posix_spawnp(&child_, words[0].c_str(), &actions, nullptr, pointers.data(), environ) != 0)
    child_ = 0;
  posix_spawn_file_actions_destroy(&actions);
}

void RunningTool::Signal(int signal) const {
  if (child_ != 0) kill(child_, signal);
}

void RunningTool::Freeze() const {
  Signal(SIGSTOP);
  siginfo_t info{};
  if (child_ != 0) waitid(P_PID, static_cast<id_t>(child_), &info, WSTOPPED | WEXITED | WNOWAIT);
}

bool RunningTool::Ended() const {
  siginfo_t info{};
  return child_ == 0 ||
         waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

ToolResult RunningTool::Wait() {
  ToolResult result;
  if (const int child = std::exchange(child_, 0); child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    result.killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  result.out = ReadText(*dir_ / "out");
  result.err = ReadText(*dir_ / "err");
  return result;
}

ToolResult RunTool(const std::vector<std::string>& arguments) {
  return RunningTool(arguments).Wait();
}

ToolResult RunToolUnder(const std::vector<std::string>& program,
                        const std::vector<std::string>& arguments) {
  return RunningTool::Command(Words(program, arguments)).Wait();
}

ToolResult RunToolAndKill(const std::vector<std::string>& arguments, int64_t microseconds) {
  RunningTool tool(arguments);
  usleep(static_cast<useconds_t>(microseconds));
  tool.Signal(SIGKILL);
  return tool.Wait();
}

}  // namespace favor
