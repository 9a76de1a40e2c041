#include "cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "core/json.h"
#include "models/checkpoint.h"
#include "train/config_fields.h"

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
  // Options would be taken from the run that this one starts from if they are not written.
  if (!config.init.empty()) {
    return fmt::format("favor train --config {} --out {}",
                       Quoted((std::filesystem::path(out) / models::kConfigName).string()),
                       Quoted(out + "-again"));
  }
  RunConfig made = config, usual;
  usual.task = config.task;
  usual.model.attention = config.model.attention;
  usual.model.heads_of = config.model.heads_of;
  UseRecommended(usual);
  usual.task = Task::kCausal;
  usual.model.attention = ModelConfig().attention;
  usual.model.heads_of = "";
  // Values that `auto` stands for.
  usual.format.kind = config.data.find(',') == std::string::npos ? KindOf(config.data, usual.format)
                                                                 : config.format.kind;
  const bool follows = config.format.split_by > SplitRule::kBlocks;  // from files that are given
  usual.format.split_by = follows                                 ? config.format.split_by
                          : config.format.kind == DataKind::kText ? SplitRule::kPlace
                                                                  : SplitRule::kRecords;
  // Values that follow from the data and the length.
  usual.model.vocab = config.model.vocab;
  usual.model.classes = config.model.classes;
  usual.model.causal = config.model.causal;
  usual.model.per_token = config.model.per_token;
  usual.model.numbers = config.model.numbers;
  if (config.model.max_length == config.training.length)
    usual.model.max_length = config.model.max_length;
  const std::vector<Field> fields = train::RunFields(made);
  const Json values = FieldsToJson(fields), defaults = FieldsToJson(train::RunFields(usual));
  std::string command = "favor train";
  for (const Field& field : fields) {
    const Json& value = values[std::string(field.key)];
    if (value == defaults[std::string(field.key)] || value.is_null()) continue;
    const std::string option = field.Option();
    if (value.is_boolean()) {
      command += " " + (value.get<bool>() ? option : "--no-" + option.substr(2));
    } else {
      command +=
          " " + option + " " + Quoted(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return command + " --out " + Quoted(out);
}

}  // namespace favor::cli
