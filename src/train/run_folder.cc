#include "train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/error_text.h"
#include "core/json.h"
#include "io/input_file.h"
#include "models/checkpoint.h"
#include "train/run_data.h"

namespace favor::train {
namespace {

double NumberOf(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0;
}
int64_t CountOf(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_unsigned() && json[key] <= INT64_MAX
             ? json[key].get<int64_t>()
             : -1;
}

void ReadLog(const std::string& path, RunFolder& run) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  std::istringstream lines(io::ReadRegularFile(path));
  for (std::string line; std::getline(lines, line);) {
    const Json json = ParseJson(line);
    if (!json.is_object() || CountOf(json, "step") < 0 || CountOf(json, "tokens") < 0) {
      ++run.unread_lines;
      continue;
    }
    if (!json.contains("loss") || !json["loss"].is_number()) continue;  // a step without targets
    const LogPoint point{.step = CountOf(json, "step"),
                         .tokens = CountOf(json, "tokens"),
                         .loss = NumberOf(json, "loss"),
                         .accuracy = NumberOf(json, "accuracy"),
                         .tokens_per_second = NumberOf(json, "tokens_per_second")};
    (json.contains("split") ? run.evaluations : run.steps).push_back(point);
  }
}

}  // namespace

std::string RunFolder::Name() const {
  std::filesystem::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

std::optional<LogPoint> RunFolder::Best() const {
  if (evaluations.empty()) return std::nullopt;
  return *std::ranges::min_element(evaluations, {}, &LogPoint::loss);
}

double RunFolder::TokensPerSecond() const {
  std::vector<double> rates;
  for (const LogPoint& step : steps) rates.push_back(step.tokens_per_second);
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + std::ssize(rates) / 2;
  std::ranges::nth_element(rates, middle);
  return *middle;
}

double RunFolder::Seconds() const {
  double seconds = 0;
  int64_t before = 0;
  for (const LogPoint& step : steps) {
    if (step.tokens_per_second > 0)
      seconds += static_cast<double>(step.tokens - before) / step.tokens_per_second;
    before = step.tokens;
  }
  return seconds;
}

std::vector<std::string> FilesOf(const RunConfig& config, const std::string& folder) {
  const std::filesystem::path path(folder);
  std::vector<std::string> files = {config.init};
  if (!config.data.starts_with("task:")) files.push_back(config.data);
  for (const std::string_view name :
       {models::kConfigName, models::kLastName, models::kBestName, models::kLogName})
    files.push_back((path / name).string());
  for (const FormatFile& file : kFormatFiles) {
    files.push_back(config.format.*file.path);
    if (!file.copy.empty()) files.push_back((path / file.copy).string());
  }
  return files;
}

RunFolder ReadRunFolder(const std::string& path) {
  const std::optional<RunConfig> config = FindRun(path);
  if (!config) Throw(ErrorCode::kInvalidData, Printable(path), "holds no run of favor train");
  RunFolder run{.path = path, .config = *config};
  ReadLog((std::filesystem::path(path) / models::kLogName).string(), run);
  return run;
}

}  // namespace favor::train
