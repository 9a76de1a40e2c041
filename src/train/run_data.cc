#include "train/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/error_text.h"
#include "core/json.h"

namespace favor::train {
namespace {

namespace fs = std::filesystem;

bool IsTask(const std::string& source) { return source.starts_with("task:"); }

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string Ranges(const std::vector<int64_t>& counts) {
  std::string text;
  for (size_t begin = 0; begin < counts.size();) {
    size_t end = begin;
    while (end < counts.size() && counts[end] > 0) ++end;
    if (end > begin) {
      if (!text.empty()) text += ',';
      text += end == begin + 1 ? std::to_string(begin) : fmt::format("{}-{}", begin, end - 1);
    }
    begin = end + 1;
  }
  return text;
}

std::string Text(const Json& state, const char* key) {
  return state.is_object() && state.contains(key) && state[key].is_string()
             ? state[key].get<std::string>()
             : "";
}

std::vector<std::string> Classes(const Json& state) {
  std::vector<std::string> classes;
  if (!state.is_object() || !state.contains("classes") || !state["classes"].is_array()) return {};
  for (const Json& one : state["classes"])
    classes.push_back(one.is_string() ? one.get<std::string>() : "");
  return classes;
}

std::optional<LabelScale> Scale(const Json& state) {
  if (!state.is_object() || !state.contains("scale") || !state["scale"].is_array()) return {};
  const Json& scale = state["scale"];
  if (scale.size() != 2 || !scale[0].is_number() || !scale[1].is_number()) return {};
  const LabelScale found{.mean = scale[0].get<double>(), .deviation = scale[1].get<double>()};
  if (!std::isfinite(found.mean) || !std::isfinite(found.deviation) || found.deviation <= 0)
    return {};
  return found;
}

// Files of splits that are not where the config says may be next to the data.
void FindNextTo(const std::string& data, DataFormat& format) {
  for (std::string* path : {&format.valid_data, &format.test_data}) {
    if (path->empty() || Exists(*path)) continue;
    const fs::path there = fs::path(data).parent_path() / fs::path(*path).filename();
    if (Exists(there)) *path = there.string();
  }
}

// Data with labels as the run's model knows them.
std::unique_ptr<Dataset> OpenLike(const RunConfig& config, const DataDescription& record) {
  DataOptions options = OptionsOf(config);
  options.classes = record.classes;
  options.scale = record.scale;
  return favor::OpenData(config.data, options);
}

// Data that lists or files divide, if it is the run's own.
std::shared_ptr<const Dataset> OpenIfSame(RunConfig config, const DataDescription& record) {
  FindNextTo(config.data, config.format);
  const DataFormat& format = config.format;
  const bool lists = !format.held_out.empty() || !format.clusters.empty() ||
                     !format.valid_data.empty() || !format.test_data.empty();
  const auto missing = [&](const FormatFile& file) {
    return !(format.*file.path).empty() && !Exists(format.*file.path);
  };
  if (!lists || record.fingerprint.empty() || std::ranges::any_of(kFormatFiles, missing))
    return nullptr;
  try {
    std::shared_ptr<const Dataset> data = OpenLike(config, record);
    return data->Fingerprint() == record.fingerprint ? data : nullptr;
  } catch (const Error&) {  // names that other data does not have
    return nullptr;
  }
}

}  // namespace

void CheckDataGiven(const RunConfig& config) {
  if (config.data.empty())
    Throw(ErrorCode::kInvalidOption, "data",
          "given nothing, expected a file, a folder or task:NAME,key=value,…");
}

bool ReadsLikeADecoder(const RunConfig& config) {
  if (config.task == Task::kCausal) return true;
  return HasLabels(config.task) && !config.init.empty() && config.model.causal;
}

DataOptions OptionsOf(const RunConfig& config) {
  return {.task = config.task,
          .seed = static_cast<uint64_t>(config.training.seed),
          .decoder = ReadsLikeADecoder(config),
          .classes = {},
          .scale = std::nullopt,
          .format = config.format};
}

DataDescription DataDescription::Of(const Dataset& data, const std::string& source,
                                    const std::string& path) {
  DataDescription record{
      .fingerprint = data.Fingerprint(),
      .content = data.Content(),
      .shape = data.Shape(),
      .vocabulary = data.vocabulary() == nullptr ? "" : data.vocabulary()->Fingerprint(),
      .shown = Ranges(data.TrainCounts()),
      .classes = data.ClassNames()};
  if (data.PredictsNumbers()) record.scale = data.Scale();
  std::error_code ignored;
  if (!IsTask(source) && fs::path(source).is_relative() && Exists(source)) {
    const fs::path folder = fs::absolute(path, ignored).parent_path();
    record.from_here = fs::absolute(source, ignored).lexically_relative(folder).generic_string();
  }
  return record;
}

Json DataDescription::ToJson() const {
  Json json = {{"data", fingerprint}, {"vocabulary", vocabulary}};
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  add("content", content);
  add("shape", shape);
  add("data_from_here", from_here);
  add("shown", shown);
  if (!classes.empty()) json["classes"] = classes;
  if (scale) json["scale"] = {scale->mean, scale->deviation};
  return json;
}

DataDescription DataDescription::FromJson(const Json& state) {
  return {.fingerprint = Text(state, "data"),
          .content = Text(state, "content"),
          .shape = Text(state, "shape"),
          .vocabulary = Text(state, "vocabulary"),
          .from_here = Text(state, "data_from_here"),
          .shown = Text(state, "shown"),
          .classes = Classes(state),
          .scale = Scale(state)};
}

std::vector<int32_t> DataDescription::Unseen(int64_t vocab) const {
  if (shown.empty()) return {};
  std::vector<bool> seen(static_cast<size_t>(vocab));
  const char *at = shown.data(), *const end = shown.data() + shown.size();
  while (at < end) {
    int64_t first = 0, last = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc()) break;
    last = first;
    if (parsed.ptr < end && *parsed.ptr == '-') parsed = std::from_chars(parsed.ptr + 1, end, last);
    for (int64_t token = std::max<int64_t>(first, 0); token <= std::min(last, vocab - 1); ++token)
      seen[static_cast<size_t>(token)] = true;
    at = parsed.ptr + 1;
  }
  std::vector<int32_t> unseen;
  for (size_t token = 0; token < seen.size(); ++token) {
    if (!seen[token]) unseen.push_back(static_cast<int32_t>(token));
  }
  return unseen;
}

std::optional<int32_t> StartToken(const RunConfig& config, const Vocabulary& vocabulary,
                                  const DataDescription& record) {
  const SpecialTokens special = vocabulary.special();
  if (config.format.layout != Layout::kJoin) return special.begin;
  const std::vector<int32_t> unseen = record.Unseen(vocabulary.size());
  if (special.end && std::ranges::find(unseen, *special.end) != unseen.end()) return std::nullopt;
  return special.end;
}

void UseCopies(const std::string& folder, DataFormat& format) {
  for (const FormatFile& file : kFormatFiles) {
    const fs::path copy = fs::path(folder) / file.copy;
    if (!file.copy.empty() && !(format.*file.path).empty() && Exists(copy))
      format.*file.path = copy.string();
  }
}

std::shared_ptr<const Dataset> FindData(const RunConfig& config, const std::string& folder,
                                        const DataDescription& record, const std::string& hint) {
  RunConfig own = config;
  if (!hint.empty()) {
    own.data = hint;
    if (auto same = OpenIfSame(own, record)) return same;
    // Other data: what divides the run's own does not fit it.
    DataFormat& format = own.format;
    format.held_out = format.clusters = format.valid_data = format.test_data = "";
    if (format.split_by > SplitRule::kBlocks) format.split_by = SplitRule::kAuto;
    return OpenLike(own, record);
  }
  std::vector<std::string> places = {own.data};
  if (!record.from_here.empty())
    places.push_back((fs::path(folder) / record.from_here).lexically_normal().string());
  std::shared_ptr<const Dataset> first;
  for (const std::string& place : places) {
    if (!IsTask(place) && !Exists(place) && place.find(',') == std::string::npos) continue;
    own.data = place;
    FindNextTo(place, own.format);
    std::shared_ptr<const Dataset> data = OpenLike(own, record);
    if (record.fingerprint.empty() || data->Fingerprint() == record.fingerprint) return data;
    if (first == nullptr) first = std::move(data);
  }
  if (first != nullptr) return first;
  Throw(ErrorCode::kIo, Printable(config.data),
        "is neither here nor where the run in '{}' found it, expected the run's data (--data)",
        Printable(folder));
}

}  // namespace favor::train
