// Command lines as text: what a reader may type into a shell to do it again.
#ifndef FAVOR_CLI_COMMAND_LINE_H_
#define FAVOR_CLI_COMMAND_LINE_H_

#include <string>

#include "favor/train.h"

namespace favor::cli {

// An argument as a shell reads it.
std::string Quoted(const std::string& text);

// The command that makes a run again: all that differs from the defaults.
std::string CommandOf(const RunConfig& config, const std::string& out);

}  // namespace favor::cli

#endif  // FAVOR_CLI_COMMAND_LINE_H_
