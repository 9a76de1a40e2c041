// What the folder of a run tells: its config and its log.
#ifndef FAVOR_TRAIN_RUN_FOLDER_H_
#define FAVOR_TRAIN_RUN_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "favor/train.h"

namespace favor::train {

// A line of log.jsonl.
struct LogPoint {
  int64_t step = 0, tokens = 0;
  double loss = 0, accuracy = 0;
  double tokens_per_second = 0;  // of steps
};

struct RunFolder {
  std::string path;
  RunConfig config;
  std::vector<LogPoint> steps, evaluations;
  int64_t unread_lines = 0;  // of the log: damaged

  std::string Name() const;              // the last part of the path
  std::optional<LogPoint> Best() const;  // of evaluations
  double TokensPerSecond() const;        // the median of steps
  double Seconds() const;                // of steps alone
};

// Throws kInvalidData if the folder holds no run. Lines of the log that cannot be read are left
// out.
RunFolder ReadRunFolder(const std::string& path);

// Files that the run in a folder needs, and that nothing may overwrite.
std::vector<std::string> FilesOf(const RunConfig& config, const std::string& folder);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_RUN_FOLDER_H_
