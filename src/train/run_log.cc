#include "train/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "core/error_text.h"
#include "core/json.h"
#include "io/atomic_file.h"
#include "io/input_file.h"

namespace favor::train {
namespace {

std::string LinesUpTo(const std::string& path, int64_t last_step) {
  std::istringstream lines(io::ReadRegularFile(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (lines.eof()) break;  // a line without its end was cut off
    const Json json = ParseJson(line);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= last_step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::string& path, Task task, int64_t last_step) : path_(path), task_(task) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  io::WriteFileAtomically(path, exists ? LinesUpTo(path, last_step) : "");
  descriptor_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0)
    Throw(ErrorCode::kIo, Printable(path), "cannot be written: {}", std::strerror(errno));
}

RunLog::~RunLog() { close(descriptor_); }

void RunLog::Append(const std::string& line) {
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      Throw(ErrorCode::kIo, Printable(path_), "writing failed: {}", std::strerror(errno));
    left.remove_prefix(static_cast<size_t>(written));
  }
}

void RunLog::Step(const StepReport& report, int64_t tokens, double tokens_per_second) {
  Json json = {{"step", report.step}, {"tokens", tokens}, {"loss", report.loss}};
  if (task_ != Task::kRegress) json["accuracy"] = report.accuracy;
  json["learning_rate"] = report.learning_rate;
  json["gradient_norm"] = report.gradient_norm;
  json["tokens_per_second"] = tokens_per_second;
  Append(json.dump() + "\n");
}

void RunLog::Evaluation(int64_t step, Split split, const Score& score) {
  Json json = {
      {"step", step}, {"split", Name(split)}, {"tokens", score.count}, {"loss", score.MeanLoss()}};
  if (task_ != Task::kRegress) json["accuracy"] = score.Accuracy();
  if (!HasLabels(task_)) {
    json["perplexity"] = score.Perplexity();
    json["bits_per_token"] = score.BitsPerToken();
  }
  Append(json.dump() + "\n");
}

void RunLog::Sync() {
  if (fsync(descriptor_) != 0)
    Throw(ErrorCode::kIo, Printable(path_), "syncing failed: {}", std::strerror(errno));
}

}  // namespace favor::train
