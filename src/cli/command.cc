#include "cli/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

#include "cli/help_text.h"
#include "core/error_text.h"
#include "core/notice.h"
#include "favor/version.h"

namespace favor::cli {

#define FAVOR_ENTRY(Name) Command Name##Command();
#include "commands.inc"
#undef FAVOR_ENTRY

std::span<const Command> AllCommands() {
  static const Command commands[] = {
#define FAVOR_ENTRY(Name) Name##Command(),
#include "commands.inc"
#undef FAVOR_ENTRY
  };
  return commands;
}

namespace {

constexpr int kFailed = 1, kWrongUsage = 2, kSignal = 128;
constexpr size_t kFewNames = 16;  // as many names fit into an error line

// The command or part that the words of the command line chose.
const Node& Chosen(const Node& node) {
  for (const auto& part : node.parts)
    if (part->app->parsed()) return Chosen(*part);
  return node;
}

std::unique_ptr<Node> MakeNode(const Command& command, const Node& parent) {
  auto node = std::make_unique<Node>();
  node->name = command.name;
  node->path = parent.path.empty() ? command.name : parent.path + " " + command.name;
  node->summary = command.summary;
  node->example = command.example;
  node->app = parent.app->add_subcommand(command.name);
  node->options = std::make_unique<Options>(*node->app, node->path);
  if (command.setup) node->run = command.setup(*node->options);
  for (const Command& part : command.parts) node->parts.push_back(MakeNode(part, *node));
  return node;
}

// The tree of all commands under the parser `app`.
Node MakeTree(CLI::App& app) {
  Node root;
  root.app = &app;
  root.summary = "favor: linear-time attention. Trains, evaluates, runs and measures Performers.";
  for (const Command& command : AllCommands()) root.parts.push_back(MakeNode(command, root));
  return root;
}

int Report(std::string_view message, int status) {
  Notice(fmt::format("favor: error: {}\n", message));
  return status;
}

// If the reader of standard output has gone, as with `| head`, end as a process that does not
// handle SIGPIPE does.
void EndIfNobodyReads(int error) {
  if (error != EPIPE) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

int Flush() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  EndIfNobodyReads(errno);
  return Report("output: writing to standard output failed", kFailed);
}

// A file that grows too large, or a reader of stderr that goes away, is at most a failed write, not
// the end of the process. Standard streams that are closed are opened on /dev/null: otherwise the
// next files opened would take their descriptors.
void PrepareProcess() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // Standard output gets a descriptor for reading, so that lost output still fails.
    const int flags = descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR;
    if (open("/dev/null", flags) != descriptor) return;  // there is no /dev/null
  }
}

// Says in one line what the parser rejected.
std::string Explain(const Node& where, const CLI::ParseError& error) {
  const std::string who = where.path.empty() ? "command" : where.path;
  const std::vector<std::string> extras = where.app->remaining();
  if (!extras.empty()) {
    const bool option = extras[0].starts_with("-");
    std::vector<std::string_view> names = where.PartNames();
    for (const Option& each : where.AllOptions())
      for (const std::string& name : each.names())
        if (name.starts_with('-')) names.push_back(name);
    const char* kind = option ? "option" : where.path.empty() ? "name" : "argument";
    const bool near = Nearest(extras[0], names).has_value() || names.size() <= kFewNames;
    return fmt::format(
        "{}: unknown {} '{}'{}", who, kind, Printable(extras[0]),
        near ? Suggest(extras[0], names) : fmt::format(" (see: favor help {})", who));
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    // "--steps: 1 required N missing", "states: At least 2 required but received 1"
    const std::string text = error.what(), name = text.substr(0, text.find(':'));
    for (const Option& each : where.options->all()) {
      if (std::ranges::find(each.names(), name) == each.names().end()) continue;
      return fmt::format("{}: {}, expected {} (see: favor help {})",
                         each.positional() ? where.path : where.options->Who(name),
                         text.ends_with("missing") ? "given no value" : "given too few or too many",
                         each.placeholder(), where.path);
    }
  }
  std::string what = error.what();
  for (char& c : what) c = c == '\n' ? ' ' : c;
  return fmt::format("{}: {} (see: favor help {})", who, what, where.path);
}

// Throws if the chosen command lacks an option that it needs, or got one twice.
void CheckComplete(const Node& chosen) {
  if (!chosen.parts.empty()) {
    Throw(ErrorCode::kInvalidOption, chosen.path, "given no part, expected {} (see: favor help {})",
          fmt::join(chosen.PartNames(), ", "), chosen.path);
  }
  for (const Option& option : chosen.options->all()) {
    if (!option.list() && option.Times() > 1) {
      Throw(ErrorCode::kInvalidOption,
            chosen.options->Who(fmt::format("{}", fmt::join(option.names(), ", "))),
            "given {}, expected once",
            option.Times() == 2 ? "twice" : fmt::format("{} times", option.Times()));
    }
  }
  for (const Option& option : chosen.options->all()) {
    if (!option.required() || option.Given()) continue;
    Throw(ErrorCode::kInvalidOption,
          option.positional() ? chosen.path : chosen.options->Who(option.name()),
          "given nothing, expected {} (see: favor help {})", option.placeholder(), chosen.path);
  }
}

}  // namespace

std::string Help(std::span<const std::string> words) {
  CLI::App app("", "favor");
  const Node root = MakeTree(app);
  const Node* node = &root;
  for (const std::string& word : words) {
    const Node* next = node->Part(word);
    if (next == nullptr) {
      Throw(ErrorCode::kInvalidOption, "help", "unknown command '{}'{}", Printable(word),
            Suggest(word, node->PartNames()));
    }
    node = next;
  }
  return HelpText(*node);
}

int Main(int argc, char** argv) {
  PrepareProcess();
  CLI::App app("", "favor");
  app.set_version_flag("--version", "favor " FAVOR_VERSION);
  app.require_subcommand(0, 1);  // `favor help features`: the second word is an argument
  const Node root = MakeTree(app);
  try {
    app.parse(argc, argv);
    const Node& chosen = Chosen(root);
    if (&chosen == &root) {
      Notice(HelpText(root));
      return kWrongUsage;
    }
    CheckComplete(chosen);
    chosen.run();
    return Flush();
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", HelpText(Chosen(root)));
    return Flush();
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return Flush();
  } catch (const StoppedBySignal& stopped) {
    const int status = Flush();
    return status != 0 ? status : kSignal + stopped.signal;
  } catch (const CLI::ParseError& error) {
    return Report(Explain(Chosen(root), error), kWrongUsage);
  } catch (const Error& error) {
    return Report(error.what(), error.code() == ErrorCode::kInvalidOption ? kWrongUsage : kFailed);
  } catch (const std::bad_alloc&) {
    return Report("memory: not enough for this request", kFailed);
  } catch (const std::system_error& error) {
    EndIfNobodyReads(error.code().value());
    return Report(fmt::format("system: {}", error.what()), kFailed);
  } catch (const std::exception& error) {
    return Report(error.what(), kFailed);
  }
}

}  // namespace favor::cli
