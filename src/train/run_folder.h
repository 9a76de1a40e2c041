// What the folder of a run holds: its config and its log.
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
  double tokens_per_second = 0;  // only for steps
};

struct RunFolder {
  std::string path;
  RunConfig config;
  std::vector<LogPoint> steps, evaluations;
  int64_t unread_lines = 0;  // damaged lines of the log

  std::string Name() const;              // the last part of the path
  std::optional<LogPoint> Best() const;  // the evaluation with the lowest loss
  double TokensPerSecond() const;        // median over steps
  double Seconds() const;                // total time of steps, without evaluations
};

// Throws kInvalidData if the folder holds no run. Lines of the log that cannot be read are left
// out.
RunFolder ReadRunFolder(const std::string& path);

// Files that the run in a folder needs, and that nothing may overwrite.
std::vector<std::string> FilesOf(const RunConfig& config, const std::string& folder);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_RUN_FOLDER_H_
