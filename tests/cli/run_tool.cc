#include "tests/cli/run_tool.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temp_dir.h"

namespace favor {

namespace {

ToolResult Run(std::vector<std::string> words, int64_t kill_after) {
  const TempDir dir;
  const std::string out = dir / "out", err = dir / "err";
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  ToolResult result;
  if (posix_spawnp(&child, words[0].c_str(), &actions, nullptr, pointers.data(), environ) == 0) {
    if (kill_after >= 0) {
      usleep(static_cast<useconds_t>(kill_after));
      kill(child, SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  posix_spawn_file_actions_destroy(&actions);
  result.out = ReadText(out);
  result.err = ReadText(err);
  return result;
}

std::vector<std::string> Words(std::vector<std::string> program,
                               const std::vector<std::string>& arguments) {
  program.emplace_back(FAVOR_TOOL);
  program.insert(program.end(), arguments.begin(), arguments.end());
  return program;
}

}  // namespace

ToolResult RunTool(const std::vector<std::string>& arguments) {
  return Run(Words({}, arguments), -1);
}

ToolResult RunToolUnder(const std::vector<std::string>& program,
                        const std::vector<std::string>& arguments) {
  return Run(Words(program, arguments), -1);
}

ToolResult RunToolAndKill(const std::vector<std::string>& arguments, int64_t microseconds) {
  return Run(Words({}, arguments), microseconds);
}

}  // namespace favor
