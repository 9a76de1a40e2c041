// favor help [COMMAND]
#include <fmt/format.h>

#include "cli/command.h"
#include "core/error_text.h"

namespace favor::cli {

Command HelpCommand() {
  return {.name = "help",
          .summary = "Show the commands, or the options of one of them",
          .example = "favor help features",
          .setup = [](CLI::App& app) -> std::function<void()> {
            const auto topic = std::make_shared<std::string>();
            app.add_option("command", *topic, "A command")->option_text("COMMAND");
            return [&app, topic] {
              const CLI::App* root = app.get_parent();
              if (topic->empty()) {
                // root->help() would be the help of the command now running, this one.
                fmt::print("{}", root->get_formatter()->make_help(root, root->get_name(),
                                                                  CLI::AppFormatMode::Normal));
                return;
              }
              std::vector<std::string_view> names;
              for (const Command& command : AllCommands()) {
                if (command.name == *topic) {
                  fmt::print("{}", root->get_subcommand(command.name)->help(root->get_name()));
                  return;
                }
                names.push_back(command.name);
              }
              Throw(ErrorCode::kInvalidOption, "help", "unknown command '{}'{}", Printable(*topic),
                    Suggest(*topic, names));
            };
          }};
}

}  // namespace favor::cli
