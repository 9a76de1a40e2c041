// favor help [COMMAND [PART]]
#include <fmt/format.h>

#include "cli/command.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::vector<std::string> words;
};

void Declare(Options& options, Arguments& a) {
  options.Words("command", {0, 8}, a.words, "A command, and a part of it").Placeholder("COMMAND");
}

void Run(const Arguments& a) { fmt::print("{}", Help(a.words)); }

}  // namespace

Command HelpCommand() {
  return {.name = "help",
          .summary = "Show the commands, or the options of one of them",
          .example = "favor help features",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
