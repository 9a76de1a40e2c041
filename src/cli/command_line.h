// Command lines as text, ready to be typed into a shell.
#ifndef FAVOR_CLI_COMMAND_LINE_H_
#define FAVOR_CLI_COMMAND_LINE_H_

#include <string>

#include "favor/train.h"

namespace favor::cli {

// `text` quoted as one argument of a shell command.
std::string Quoted(const std::string& text);

// The command that repeats a run, with every option that differs from its default.
std::string CommandOf(const RunConfig& config, const std::string& out);

}  // namespace favor::cli

#endif  // FAVOR_CLI_COMMAND_LINE_H_
