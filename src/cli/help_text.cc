#include "cli/help_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/utf8.h"

namespace favor::cli {
namespace {

// Appends a row of two columns; a long left one moves the right one to the next line.
void AppendRow(std::string& text, const std::string& left, const std::string& right) {
  constexpr size_t kColumn = 30;
  const auto width = static_cast<size_t>(
      std::ranges::count_if(left, [](char c) { return !ContinuesCodePoint(c); }));
  text.append("  ").append(left);
  if (width + 4 > kColumn) {
    text.append("\n").append(kColumn, ' ');
  } else {
    text.append(kColumn - width - 2, ' ');
  }
  text.append(right).append("\n");
}

// "favor state append --state FILE [options]": what must be given, and positional words.
std::string Usage(const Node& node) {
  std::string usage = node.path.empty() ? "favor" : "favor " + node.path;
  if (!node.parts.empty()) usage += node.path.empty() ? " COMMAND" : " PART";
  for (const Option& option : node.AllOptions()) {
    if (option.positional()) {
      usage += option.required() ? " " + option.placeholder() : " [" + option.placeholder() + "]";
    } else if (option.required()) {
      usage += fmt::format(" {} {}", option.name(), option.placeholder());
    }
  }
  return usage + " [options]";
}

void AppendOptions(std::string& text, const Node& node, const std::string& heading) {
  text += fmt::format("\n{}:\n", heading);
  for (const Option& option : node.AllOptions()) {
    if (option.heading() != heading) continue;
    std::string left =
        option.positional() ? "" : fmt::format("{}", fmt::join(option.names(), ", "));
    if (!option.placeholder().empty()) left += (left.empty() ? "" : " ") + option.placeholder();
    AppendRow(text, left, option.Help());
  }
  if (heading != kUsualHeading) return;
  if (node.path.empty()) AppendRow(text, "--version", "Print the version");
  AppendRow(text, "-h, --help", "Print this help");
}

}  // namespace

std::string HelpText(const Node& node) {
  std::string text = fmt::format("{}\nUsage: {}\n", node.summary, Usage(node));
  if (!node.parts.empty()) {
    text += node.path.empty() ? "\nCommands:\n" : "\nParts:\n";
    for (const auto& part : node.parts) AppendRow(text, part->name, part->summary);
  }
  std::vector<std::string> headings = {kUsualHeading};
  for (const Option& option : node.AllOptions()) {
    if (std::ranges::find(headings, option.heading()) == headings.end())
      headings.push_back(option.heading());
  }
  for (const std::string& heading : headings) AppendOptions(text, node, heading);
  if (node.path.empty())
    text += "\nfavor help COMMAND shows the options of a command and an example.\n";
  if (!node.example.empty()) text += "\nExample:\n  " + node.example + "\n";
  return text;
}

}  // namespace favor::cli
