// Runs the built tool as a user would: no terminal, its own process.
#ifndef FAVOR_TESTS_CLI_RUN_TOOL_H_
#define FAVOR_TESTS_CLI_RUN_TOOL_H_

#include <string>
#include <vector>

namespace favor {

struct ToolResult {
  int status = -1;  // exit status
  std::string out, err;
};

ToolResult RunTool(const std::vector<std::string>& arguments);

}  // namespace favor

#endif  // FAVOR_TESTS_CLI_RUN_TOOL_H_
