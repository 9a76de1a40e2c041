#include "cli/command.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error_text.h"
#include "favor/version.h"

namespace favor::cli {
namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

int Report(std::string_view message, int status) {
  const std::string line = fmt::format("favor: error: {}\n", message);
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // where stderr is closed there is nobody to tell
  return status;
}

int Flush() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return Report("output: writing to standard output failed", kFailed);
}

// The names of all options and commands of `app`, for suggestions.
std::vector<std::string> Names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// What the parser rejected, in one line.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const CLI::App& where = chosen.empty() ? app : *chosen[0];
  std::string who = where.get_name();
  if (chosen.empty()) who = "command";
  const std::vector<std::string> extras = where.remaining();
  if (!extras.empty()) {
    const std::vector<std::string> names = Names(where);
    const std::vector<std::string_view> views(names.begin(), names.end());
    const bool option = extras[0].starts_with("-");
    return fmt::format("{}: unknown {} '{}'{}", who,
                       option           ? "option"
                       : chosen.empty() ? "name"
                                        : "argument",
                       Printable(extras[0]), Suggest(extras[0], views));
  }
  std::string what = error.what();
  for (char& c : what) c = c == '\n' ? ' ' : c;
  return fmt::format("{}: {} (see: favor help {})", who, what, chosen.empty() ? "" : who);
}

}  // namespace

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

int Main(int argc, char** argv) {
  std::signal(
      SIGXFSZ,
      SIG_IGN);  // a file that grows too large is an error of the write, not the end of the process
  CLI::App app("favor: linear-time attention. Trains, evaluates, runs and measures Performers.",
               "favor");
  app.set_version_flag("--version", "favor " FAVOR_VERSION, "Print the version");
  app.footer("favor help COMMAND shows the options of a command and an example.");
  app.require_subcommand(0, 1);  // `favor help features`: the second word is an argument
  std::map<const CLI::App*, std::function<void()>> runs;
  for (const Command& command : AllCommands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer("Example:\n  " + command.example);
    runs[sub] = command.setup(*sub);
  }
  try {
    app.parse(argc, argv);
    const auto chosen = app.get_subcommands();
    if (chosen.empty()) {
      fmt::print(stderr, "{}", app.help());
      return kWrongUsage;
    }
    runs.at(chosen[0])();
    return Flush();
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    fmt::print("{}", chosen.empty() ? app.help() : chosen[0]->help("favor"));
    return Flush();
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return Flush();
  } catch (const CLI::ParseError& error) {
    return Report(Explain(app, error), kWrongUsage);
  } catch (const Error& error) {
    return Report(error.what(), error.code() == ErrorCode::kInvalidOption ? kWrongUsage : kFailed);
  } catch (const std::bad_alloc&) {
    return Report("memory: not enough for this request", kFailed);
  } catch (const std::system_error& error) {
    return Report(fmt::format("output: {}", error.what()), kFailed);
  } catch (const std::exception& error) {
    return Report(error.what(), kFailed);
  }
}

}  // namespace favor::cli
