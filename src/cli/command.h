// Commands of the tool. Each file of cli/commands/ defines one function `Command NameCommand()`;
// the list, the help and the dispatch follow from the files.
#ifndef FAVOR_CLI_COMMAND_H_
#define FAVOR_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/options.h"

namespace favor::cli {

struct Command {
  std::string name;
  std::string summary;
  std::string example;  // shown at the end of its help
  // Declares the options and returns what to run once they are parsed.
  std::function<std::function<void()>(Options& options)> setup;
  // Parts, such as `append` of `favor state append`; a command has either parts or a setup.
  std::vector<Command> parts;
};

// The setup of a command whose options, declared by `declare`, fill the arguments of `run`.
template <class Arguments>
auto Setup(void (*declare)(Options&, Arguments&),
           std::type_identity_t<std::function<void(Arguments&)>> run) {
  return [declare, run](Options& options) -> std::function<void()> {
    const auto arguments = std::make_shared<Arguments>();
    declare(options, *arguments);
    return [arguments, run] { run(*arguments); };
  };
}

std::span<const Command> AllCommands();  // in order of their file names

// The help of the tool (no words), of a command, or of a part: {"state", "append"}.
std::string Help(std::span<const std::string> words);

// Thrown by a command that a signal stopped, once everything is saved.
struct StoppedBySignal {
  int signal;
};

// Runs the tool; returns its exit status: 0 done, 1 failed, 2 wrong usage, 128 + N stopped by
// signal N.
int Main(int argc, char** argv);

}  // namespace favor::cli

#endif  // FAVOR_CLI_COMMAND_H_
