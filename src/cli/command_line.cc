#include "cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/json.h"

namespace favor::cli {

std::string Quoted(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./:,=+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string CommandOf(const RunConfig& config, const std::string& out) {
  RunConfig standard;
  // What auto gives.
  standard.format.kind = config.data.find(',') == std::string::npos
                             ? KindOf(config.data, standard.format)
                             : config.format.kind;
  standard.format.split_by = config.format.kind == "text" ? "place" : "records";
  const Json have = Json::parse(ToJson(config)), usual = Json::parse(ToJson(standard));
  std::string command = "favor train";
  const auto add = [&](const std::string& key, const Json& value, const Json& normal) {
    // These follow from the data and the length.
    if (key == "vocab" || key == "classes" || key == "causal") return;
    if (key == "max_length" && value == config.training.length) return;
    if (value == normal || value.is_null()) return;
    std::string option = "--" + key;
    std::ranges::replace(option, '_', '-');
    if (value.is_boolean()) {
      command += fmt::format(" --{}{}", value.get<bool>() ? "" : "no-", option.substr(2));
    } else {
      command +=
          " " + option + " " + Quoted(value.is_string() ? value.get<std::string>() : value.dump());
    }
  };
  for (const auto& [key, value] : have.items()) {
    if (!value.is_object()) {
      if (key != "favor") add(key, value, usual[key]);
      continue;
    }
    for (const auto& [inner, item] : value.items()) add(inner, item, usual[key][inner]);
  }
  return command + " --out " + Quoted(out);
}

}  // namespace favor::cli
