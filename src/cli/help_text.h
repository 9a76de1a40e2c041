// The tree of commands with their options, and the help that is made from it.
#ifndef FAVOR_CLI_HELP_TEXT_H_
#define FAVOR_CLI_HELP_TEXT_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace favor::cli {

// A command with its options, and the commands below it; the root is the tool itself.
struct Node {
  std::string name, path;  // "append", "state append"
  std::string summary, example;
  CLI::App* app = nullptr;
  std::unique_ptr<Options> options;  // null at the root
  std::function<void()> run;
  std::vector<std::unique_ptr<Node>> parts;

  const Node* Part(std::string_view wanted) const {
    for (const auto& part : parts)
      if (part->name == wanted) return part.get();
    return nullptr;
  }
  const std::deque<Option>& AllOptions() const {
    static const std::deque<Option> none;
    return options == nullptr ? none : options->all();
  }
  std::vector<std::string_view> PartNames() const {
    std::vector<std::string_view> names;
    names.reserve(parts.size());
    for (const auto& part : parts) names.push_back(part->name);
    return names;
  }
};

std::string HelpText(const Node& node);

}  // namespace favor::cli

#endif  // FAVOR_CLI_HELP_TEXT_H_
