#include "reports/data_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "inference/label_outputs.h"

namespace favor::reports {
namespace {

double Ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

bool IsText(const SplitSummary& summary) { return summary.words > 0; }

// Perplexity per word and bits per character can be compared between tokenizers.
double WordPerplexity(const Score& score, const SplitSummary& summary) {
  return std::exp(score.MeanLoss() * Ratio(summary.tokens, summary.words));
}
double BitsPerCharacter(const Score& score, const SplitSummary& summary) {
  return score.BitsPerToken() * Ratio(summary.tokens, summary.characters);
}

Json ToJson(const SplitSummary& summary) {
  Json json = {{"records", summary.records}, {"tokens", summary.tokens}};
  if (summary.records > 0) {
    json["shortest"] = summary.Shortest();
    json["longest"] = summary.Longest();
    json["mean_length"] = summary.MeanLength();
    json["length_deviation"] = summary.LengthDeviation();
    json["median_length"] = summary.MedianLength();
  }
  if (IsText(summary)) {
    json["words"] = summary.words;
    json["characters"] = summary.characters;
    json["tokens_per_word"] = Ratio(summary.tokens, summary.words);
    json["tokens_per_character"] = Ratio(summary.tokens, summary.characters);
  }
  return json;
}

std::string Sampled(int64_t count, bool all) {
  return all ? fmt::format("all {}", count) : fmt::format("a random sample of {}", count);
}

}  // namespace

DataStatistics GatherStatistics(const Dataset& data, const DataFormat& format, int64_t length,
                                const std::optional<BaselineOptions>& options) {
  const bool classes = data.classes() > 0, numbers = data.PredictsNumbers();
  const Vocabulary* vocabulary = data.vocabulary();
  const std::vector<std::string> names = data.ClassNames();
  DataStatistics statistics{.vocabulary = vocabulary ? std::string(vocabulary->name()) : "",
                            .token = std::string(data.Unit()),
                            .unit = numbers   ? "number"
                                    : classes ? "class"
                                              : std::string(data.Unit()),
                            .vocab = data.vocab(),
                            .classes = data.classes(),
                            .scale = {},
                            .split_by = data.SplitBy()};
  if (numbers) statistics.scale = data.Scale();
  for (int i = 0; i < kSplits; ++i)
    statistics.splits[static_cast<size_t>(i)] = data.Summary(static_cast<Split>(i));
  // Only records have a begin token, and pictures are never clipped.
  const bool records = vocabulary != nullptr && vocabulary->special().begin.has_value();
  if (records && data.Shape().empty() && format.layout == Layout::kClip) {
    statistics.clipped_at = length == 0 ? kDefaultLength : length;
    statistics.dropped = statistics.Summary(Split::kTrain).ShareBeyond(statistics.clipped_at);
  }
  if (!options) return statistics;
  statistics.split = options->split;
  statistics.baselines = MeasureBaselines(data, *options);
  for (const TargetCount& each : statistics.baselines->frequencies) {
    statistics.shown.push_back(!names.empty()           ? names[static_cast<size_t>(each.target)]
                               : vocabulary && !classes ? vocabulary->Show(each.target)
                                                        : std::to_string(each.target));
  }
  return statistics;
}

std::string SplitText(const DataStatistics& statistics) {
  if (statistics.split_by == SplitRule::kRecords)
    return "Divided by a hash of each record: equal ones are in the same split.";
  if (statistics.split_by == SplitRule::kPlace)
    return "Divided by place: the end is held out, the valid split before the test split. Records "
           "that are cut count once for each piece.";
  if (statistics.split_by == SplitRule::kBlocks)
    return "Divided by blocks of 8192 tokens: one in 20 is held out, for the valid and the test "
           "split alternately. Pieces between two cuts count as records.";
  if (statistics.split_by == SplitRule::kClusters)
    return "Divided by clusters of records: relatives are in the same split.";
  if (statistics.split_by == SplitRule::kStratified)
    return "Divided by a hash of each record, in the same shares of each class: equal records of a "
           "class are in the same split.";
  if (statistics.split_by == SplitRule::kFiles) return "Each split has files of its own.";
  return "";
}

std::string DroppedText(const DataStatistics& statistics) {
  if (!(statistics.dropped > 0)) return "";
  return fmt::format(
      "Sequences of {} leave out {:.1f} % of all {}s of the train split, which are never seen "
      "(layout clip){}.",
      statistics.clipped_at, 100 * statistics.dropped, statistics.token,
      statistics.classes > 0 ? "" : "; the layouts crop and join use all of them");
}

Table LengthsTable(const DataStatistics& statistics) {
  const bool text = std::ranges::any_of(statistics.splits, IsText);
  const bool lengths =
      std::ranges::any_of(statistics.splits, [](const auto& s) { return s.records > 1; });
  Table table{
      .title = "Splits",
      .caption = fmt::format("Lengths are {}s of a record, without special tokens. {} {}",
                             statistics.token, SplitText(statistics), DroppedText(statistics)),
      .columns = {"split", "records", "tokens"}};
  const auto add = [](std::vector<std::string>& cells, std::initializer_list<std::string> more) {
    cells.insert(cells.end(), more);
  };
  if (lengths) add(table.columns, {"min", "max", "mean", "sd", "median"});
  if (text) add(table.columns, {"words", "characters", "tokens per word", "tokens per character"});
  for (int i = 0; i < kSplits; ++i) {
    const SplitSummary& s = statistics.splits[static_cast<size_t>(i)];
    if (s.records == 0) continue;
    std::vector<std::string> row = {std::string(Name(static_cast<Split>(i))),
                                    std::to_string(s.records), std::to_string(s.tokens)};
    if (lengths) {
      add(row, {std::to_string(s.Shortest()), std::to_string(s.Longest()),
                fmt::format("{:.2f}", s.MeanLength()), fmt::format("{:.2f}", s.LengthDeviation()),
                fmt::format("{:.1f}", s.MedianLength())});
    }
    if (text && IsText(s)) {
      add(row, {std::to_string(s.words), std::to_string(s.characters),
                fmt::format("{:.3f}", Ratio(s.tokens, s.words)),
                fmt::format("{:.3f}", Ratio(s.tokens, s.characters))});
    }
    row.resize(table.columns.size(), "—");
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table FrequenciesTable(const DataStatistics& statistics, size_t most) {
  const Baselines& measured = *statistics.baselines;
  const size_t shown = std::min(most, measured.frequencies.size());
  Table table{.title = fmt::format("Frequencies of training targets ({}; {} of {} that occur)",
                                   Sampled(measured.counted, measured.all_counted), shown,
                                   measured.frequencies.size()),
              .caption = "How often each target occurs in sequences of the train split.",
              .columns = {statistics.classes > 0 ? "class" : "token", "count", "share %"}};
  for (size_t i = 0; i < shown; ++i) {
    const TargetCount& each = measured.frequencies[i];
    table.rows.push_back({statistics.shown[i], std::to_string(each.count),
                          fmt::format("{:.3f}", 100 * Ratio(each.count, measured.counted))});
  }
  return table;
}

Table BaselinesTable(const DataStatistics& statistics) {
  const Baselines& measured = *statistics.baselines;
  const SplitSummary& summary = statistics.Summary(statistics.split);
  const bool words = IsText(summary), characters = words && summary.characters != summary.tokens;
  Table table{
      .title = fmt::format("Baselines on {} ({} targets, sequences of {} tokens)",
                           Name(statistics.split),
                           Sampled(measured.evaluated, measured.all_evaluated), measured.length),
      .caption =
          "Models without a network: equal probabilities of what occurs, frequencies of training "
          "targets, and n-grams (interpolated Witten–Bell) or, for masked tokens, what is "
          "shown in their place. A model has to beat these.",
      .columns = {"model", "accuracy %", "perplexity", fmt::format("bits per {}", statistics.unit),
                  "nats"}};
  if (words) table.columns.emplace_back("word perplexity");
  if (characters) table.columns.emplace_back("bits per character");
  for (const Baseline& each : measured.baselines) {
    const Score& score = each.score;
    std::vector<std::string> row = {each.name, fmt::format("{:.2f}", 100 * score.Accuracy()),
                                    fmt::format("{:.3f}", score.Perplexity()),
                                    fmt::format("{:.4f}", score.BitsPerToken()),
                                    fmt::format("{:.4f}", score.MeanLoss())};
    if (words) row.push_back(fmt::format("{:.6g}", WordPerplexity(score, summary)));
    if (characters) row.push_back(fmt::format("{:.4f}", BitsPerCharacter(score, summary)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table MaskingTable(const std::vector<MaskingScores>& models) {
  Table table{.title = "Masked tokens by what is shown in their place",
              .caption =
                  "Nats and accuracy of tokens that are hidden (80 %), replaced by a token "
                  "drawn by its frequency in training (10 %) and kept as they are (10 %). Kept "
                  "tokens are easy: look at the hidden ones.",
              .columns = {"model"}};
  for (int kind = 0; kind < kMaskings; ++kind) {
    const std::string_view name = Name(static_cast<Masking>(kind));
    table.columns.push_back(fmt::format("{}, nats", name));
    table.columns.push_back("accuracy");
  }
  for (const MaskingScores& model : models) {
    std::vector<std::string> row = {model.name};
    for (const Score& score : model.by_masking) {
      row.push_back(score.count == 0 ? "—" : fmt::format("{:.4f}", score.MeanLoss()));
      row.push_back(score.count == 0 ? "—" : fmt::format("{:.2f} %", 100 * score.Accuracy()));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Json ToJson(const DataStatistics& statistics) {
  Json json = {{"vocabulary", statistics.vocabulary},
               {"unit", statistics.unit},
               {"vocab", statistics.vocab},
               {"classes", statistics.classes},
               {"split_by", statistics.split_by ? Name(*statistics.split_by) : ""},
               {"splits", Json::object()}};
  if (statistics.scale)
    json["numbers"] = {{"mean", statistics.scale->mean},
                       {"deviation", statistics.scale->deviation}};
  if (statistics.clipped_at > 0) json["dropped_by_clip"] = statistics.dropped;
  for (int i = 0; i < kSplits; ++i) {
    const SplitSummary& summary = statistics.splits[static_cast<size_t>(i)];
    if (summary.records > 0)
      json["splits"][std::string(Name(static_cast<Split>(i)))] = ToJson(summary);
  }
  if (!statistics.baselines) return json;
  const Baselines& measured = *statistics.baselines;
  json["length"] = measured.length;
  Json frequencies = Json::array();
  for (size_t i = 0; i < measured.frequencies.size(); ++i) {
    const TargetCount& each = measured.frequencies[i];
    frequencies.push_back({{"token", each.target},
                           {"shown", statistics.shown[i]},
                           {"count", each.count},
                           {"share", Ratio(each.count, measured.counted)}});
  }
  json["targets"] = {{"counted", measured.counted},
                     {"all_counted", measured.all_counted},
                     {"frequencies", std::move(frequencies)}};
  const SplitSummary& summary = statistics.Summary(statistics.split);
  Json rows = Json::array();
  for (const Baseline& each : measured.baselines) {
    if (statistics.scale) {
      rows.push_back({{"name", each.name}, {"loss", each.score.MeanLoss()}});
      continue;
    }
    rows.push_back({{"name", each.name},
                    {"loss", each.score.MeanLoss()},
                    {"accuracy", each.score.Accuracy()},
                    {"perplexity", each.score.Perplexity()},
                    {"bits_per_token", each.score.BitsPerToken()}});
    if (!IsText(summary)) continue;
    rows.back()["word_perplexity"] = WordPerplexity(each.score, summary);
    rows.back()["bits_per_character"] = BitsPerCharacter(each.score, summary);
  }
  json["baselines"] = {{"split", Name(statistics.split)},
                       {"evaluated", measured.evaluated},
                       {"all_evaluated", measured.all_evaluated},
                       {"models", std::move(rows)}};
  return json;
}

}  // namespace favor::reports
