// Commands of the tool. Each file of cli/commands/ defines one function `Command NameCommand()`;
// the list, the help and the dispatch follow from the files.
#ifndef FAVOR_CLI_COMMAND_H_
#define FAVOR_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>

namespace favor::cli {

struct Command {
  std::string name;
  std::string summary;
  std::string example;  // shown at the end of its help
  // Declares the options on `app` and returns what to run once they are parsed.
  std::function<std::function<void()>(CLI::App& app)> setup;
};

std::span<const Command> AllCommands();  // in order of their file names

// Runs the tool; returns its exit status: 0 done, 1 failed, 2 wrong usage.
int Main(int argc, char** argv);

}  // namespace favor::cli

#endif  // FAVOR_CLI_COMMAND_H_
