// Runs the built tool as a user would: no terminal, its own process.
#ifndef FAVOR_TESTS_CLI_RUN_TOOL_H_
#define FAVOR_TESTS_CLI_RUN_TOOL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace favor {

struct ToolResult {
  int status = -1;  // exit status
  std::string out, err;
};

ToolResult RunTool(const std::vector<std::string>& arguments);

// The same with a program in front, such as a tracer; its status is that of the program.
ToolResult RunToolUnder(const std::vector<std::string>& program,
                        const std::vector<std::string>& arguments);

// Killed (SIGKILL) after so many microseconds, if it still runs then: status 128 + 9.
ToolResult RunToolAndKill(const std::vector<std::string>& arguments, int64_t microseconds);

}  // namespace favor

#endif  // FAVOR_TESTS_CLI_RUN_TOOL_H_
