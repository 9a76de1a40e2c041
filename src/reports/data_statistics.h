// What data are like: lengths, frequencies of tokens, and what simple models make of them.
#ifndef FAVOR_REPORTS_DATA_STATISTICS_H_
#define FAVOR_REPORTS_DATA_STATISTICS_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "reports/baselines.h"
#include "reports/table.h"

namespace favor::reports {

struct DataStatistics {
  std::string vocabulary;  // its name; empty: none
  std::string unit;        // what is asked for: a residue, a byte, a class
  int64_t vocab = 0, classes = 0;
  std::optional<SplitRule> split_by;         // none: generated
  std::array<SplitSummary, kSplits> splits;  // by Split; generated tasks have none
  // Tokens of the train split that layout clip leaves out at `clipped_at`, as a share; else 0.
  double dropped = 0;
  int64_t clipped_at = 0;

  // Of a pass over the tokens, where one was asked for.
  std::optional<Baselines> baselines;
  Split split = Split::kValid;     // of the baselines
  std::vector<std::string> shown;  // of baselines->frequencies, as a person may read them

  const SplitSummary& Summary(Split which) const { return splits[static_cast<size_t>(which)]; }
};

// `options` none: without the pass over the tokens. `format`: that the data was opened with;
// `length` of sequences, 0: the default.
DataStatistics GatherStatistics(const Dataset& data, const DataFormat& format, int64_t length,
                                const std::optional<BaselineOptions>& options);

// How data is divided, in a sentence.
std::string SplitText(const DataStatistics& statistics);
// "Sequences of 512 leave out 74.4 % of all residues …", or nothing if they do not.
std::string DroppedText(const DataStatistics& statistics);

// A split a row, as in Table 1 of "Rethinking Attention with Performers"; no rows: no records.
Table LengthsTable(const DataStatistics& statistics);
// What became of masked tokens of each kind.
struct MaskingScores {
  std::string name;
  std::array<Score, kMaskings> by_masking;
};
Table MaskingTable(const std::vector<MaskingScores>& models);
// These two: if there are baselines.
Table FrequenciesTable(const DataStatistics& statistics, size_t most = 30);
Table BaselinesTable(const DataStatistics& statistics);

Json ToJson(const DataStatistics& statistics);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_DATA_STATISTICS_H_
