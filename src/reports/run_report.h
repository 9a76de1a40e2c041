// The report of one run, or of several next to each other: how well they predict, compared with
// baselines on the same data; curves, speed, samples, data, configuration and the commands.
#ifndef FAVOR_REPORTS_RUN_REPORT_H_
#define FAVOR_REPORTS_RUN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "favor/context.h"
#include "favor/model.h"
#include "reports/report.h"

namespace favor::reports {

struct RunReportOptions {
  std::vector<std::string> folders;
  std::string data;              // data to use instead of each run's own
  int64_t evaluate = 200'000;    // most targets of the test split for models and baselines
  int64_t count = 20'000'000;    // most targets of the train split for baselines
  int64_t samples = 3;           // samples per model that can generate
  int64_t sample_tokens = 240;   // most tokens per sample
  std::vector<int64_t> lengths;  // lengths at which the time per token is measured
  Placement placement;           // of the models; on the device of the context
  std::string command;           // command that makes the report
  std::string repeat;            // commands that make the runs and the report again, one per line
  bool quiet = false;            // no progress on stderr
};

// Throws kInvalidData if a folder holds no run, or its data cannot be read. Numbers for programs
// go to `results`.
Report MakeRunReport(const RunReportOptions& options, const Context& context, Json& results);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_RUN_REPORT_H_
