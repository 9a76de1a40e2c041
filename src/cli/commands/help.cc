// favor help [COMMAND]
#include <fmt/format.h>

#include "cli/command.h"
#include "core/error_text.h"

namespace favor::cli {

namespace {

// The help of `words`, such as {"state", "append"}, below the root.
void PrintHelp(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  std::string name = root.get_name();
  for (const std::string& word : words) {
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* part :
         app->get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); })) {
      names.push_back(part->get_name());
      if (part->get_name() == word) next = part;
    }
    if (next == nullptr) {
      const std::vector<std::string_view> views(names.begin(), names.end());
      Throw(ErrorCode::kInvalidOption, "help", "unknown command '{}'{}", Printable(word),
            Suggest(word, views));
    }
    app = next;
    name += " " + app->get_name();
  }
  // app.help() would be the help of the command now running, this one.
  fmt::print("{}", app->get_formatter()->make_help(app, name, CLI::AppFormatMode::Normal));
}

}  // namespace

Command HelpCommand() {
  return {
      .name = "help",
      .summary = "Show the commands, or the options of one of them",
      .example = "favor help features",
      .setup = [](CLI::App& app) -> std::function<void()> {
        const auto words = std::make_shared<std::vector<std::string>>();
        app.add_option("command", *words, "A command, and a part of it")->option_text("COMMAND");
        return [&app, words] { PrintHelp(*app.get_parent(), *words); };
      }};
}

}  // namespace favor::cli
