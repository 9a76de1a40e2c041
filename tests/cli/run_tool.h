// Runs the built tool as a user would: no terminal, its own process.
#ifndef FAVOR_TESTS_CLI_RUN_TOOL_H_
#define FAVOR_TESTS_CLI_RUN_TOOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/temp_dir.h"

namespace favor {

struct ToolResult {
  int status = -1;    // exit status, or 128 + the signal that ended it
  int killed_by = 0;  // the signal that ended it; 0: it ended by itself
  std::string out, err;
};

// A tool that runs in the background. It is killed if this is destroyed before Wait.
class RunningTool {
 public:
  explicit RunningTool(const std::vector<std::string>& arguments);
  // `words` are a whole command.
  static RunningTool Command(std::vector<std::string> words);
  RunningTool(RunningTool&& other) noexcept;
  ~RunningTool();

  void Signal(int signal) const;
  void Freeze() const;  // SIGSTOP; returns when the process has stopped
  bool Ended() const;
  ToolResult Wait();

 private:
  RunningTool() = default;
  void Start(std::vector<std::string> words);

  std::unique_ptr<TempDir> dir_;
  int child_ = 0;
};

ToolResult RunTool(const std::vector<std::string>& arguments);

// The same with a program in front, such as a tracer; its status is that of the program.
ToolResult RunToolUnder(const std::vector<std::string>& program,
                        const std::vector<std::string>& arguments);

// Runs the tool and kills it (SIGKILL) after so many microseconds if it still runs: status 128 + 9.
ToolResult RunToolAndKill(const std::vector<std::string>& arguments, int64_t microseconds);

}  // namespace favor

#endif  // FAVOR_TESTS_CLI_RUN_TOOL_H_
