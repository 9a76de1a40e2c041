// log.jsonl: one line of JSON for every step and every evaluation, each step once.
#ifndef FAVOR_TRAIN_RUN_LOG_H_
#define FAVOR_TRAIN_RUN_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "favor/model.h"
#include "favor/train.h"

namespace favor::train {

class RunLog {
 public:
  // Keeps the lines of steps up to `last_step`; removes what a killed run wrote after its last
  // checkpoint.
  RunLog(const std::string& path, Task task, int64_t last_step);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void Step(const StepReport& report, int64_t tokens, double tokens_per_second);
  void Evaluation(int64_t step, Split split, const Score& score);
  // Returns when everything so far is on the disk.
  void Sync();

 private:
  void Append(const std::string& line);

  std::string path_;
  Task task_;  // decides which figures say something
  int descriptor_;
};

}  // namespace favor::train

#endif  // FAVOR_TRAIN_RUN_LOG_H_
