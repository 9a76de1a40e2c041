// Statistics of data: lengths, frequencies of tokens, and how well baselines predict them.
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
  std::string vocabulary;  // name of the vocabulary; empty: none
  std::string token;       // what a token is: a residue, a byte
  std::string unit;        // what a target is: a token, a class, a number
  int64_t vocab = 0, classes = 0;
  std::optional<LabelScale> scale;           // of numbers to predict
  std::optional<SplitRule> split_by;         // empty for generated data
  std::array<SplitSummary, kSplits> splits;  // by Split; generated tasks have none
  // The share of tokens of the train split that layout clip leaves out at `clipped_at`, or 0.
  double dropped = 0;
  int64_t clipped_at = 0;

  // Results of a pass over the tokens, if one was requested.
  std::optional<Baselines> baselines;
  Split split = Split::kValid;     // split that baselines are evaluated on
  std::vector<std::string> shown;  // targets of baselines->frequencies in readable form

  const SplitSummary& Summary(Split which) const { return splits[static_cast<size_t>(which)]; }
};

// Without `options` there is no pass over the tokens. `format`: the one that the data was opened
// with. `length`: length of sequences, 0: the default.
DataStatistics GatherStatistics(const Dataset& data, const DataFormat& format, int64_t length,
                                const std::optional<BaselineOptions>& options);

// How data is divided, in a sentence.
std::string SplitText(const DataStatistics& statistics);
// "Sequences of 512 leave out 74.4 % of all residues …", or "" if nothing is left out.
std::string DroppedText(const DataStatistics& statistics);

// One row per split, as in Table 1 of "Rethinking Attention with Performers"; no rows if there are
// no records.
Table LengthsTable(const DataStatistics& statistics);
// The scores of one model on masked tokens, by what was done to them.
struct MaskingScores {
  std::string name;
  std::array<Score, kMaskings> by_masking;
};
Table MaskingTable(const std::vector<MaskingScores>& models);
// The next two need baselines, and targets that are not numbers.
Table FrequenciesTable(const DataStatistics& statistics, size_t most = 30);
Table BaselinesTable(const DataStatistics& statistics);

Json ToJson(const DataStatistics& statistics);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_DATA_STATISTICS_H_
