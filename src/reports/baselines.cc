#include "reports/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "core/progress.h"
#include "reports/ngram.h"

namespace favor::reports {
namespace {

constexpr int64_t kTokensOfBatch = 1 << 16;  // tokens read at a time

struct Pass {
  Split split;
  int64_t length, most;
  std::string title;
  bool masked, quiet;
};
struct Passed {
  int64_t targets = 0;
  bool all = true;
};

// Calls visit(history, target, masking) for all targets of whole sequences of a split, in the order
// in which models are evaluated. The history of position i is tokens 0 … i of its sequence, that of
// a class is empty. `masking`: what was done to a masked token.
template <class Visit>
Passed ForEachTarget(const Dataset& data, const Pass& pass, const Visit& visit) {
  const int64_t batch = std::max<int64_t>(1, kTokensOfBatch / pass.length);
  const int64_t batches = data.Batches(pass.split, batch, pass.length);
  const bool classes = data.classes() > 0;
  Progress progress(pass.title, batches, pass.quiet);
  Passed passed;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch part =
        data.EvalBatch(pass.split, {.index = i, .batch = batch, .length = pass.length});
    const size_t length = part.targets.size() / static_cast<size_t>(part.batch);
    const std::vector<uint8_t> kinds = pass.masked && data.vocabulary() != nullptr
                                           ? Maskings(part, *data.vocabulary())
                                           : std::vector<uint8_t>(part.targets.size());
    for (size_t at = 0; at < part.targets.size(); ++at) {
      if (at % length == 0 && passed.targets >= pass.most) {
        progress.Update(batches);
        passed.all = false;
        return passed;
      }
      if (part.targets[at] == kNoTarget) continue;
      ++passed.targets;
      const size_t begin = classes ? 0 : at / length * length, end = classes ? 0 : at + 1;
      visit(std::span(part.tokens).subspan(begin, end - begin), part.targets[at], kinds[at]);
    }
    progress.Update(i + 1);
  }
  if (passed.targets == 0)
    Throw(ErrorCode::kInvalidData, "baselines", "the {} split has no targets", Name(pass.split));
  return passed;
}

std::vector<TargetCount> Sorted(const std::vector<int64_t>& counts) {
  std::vector<TargetCount> sorted;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) sorted.push_back({static_cast<int32_t>(i), counts[i]});
  }
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &TargetCount::count);
  return sorted;
}

std::string NameOf(int order, bool classes, bool masked) {
  if (order > 1 && masked) return "shown token";
  if (order > 1) return fmt::format("{}-gram", order);
  return classes ? "most frequent" : "empirical";
}

}  // namespace

int OrderFor(int64_t vocab, int64_t targets, double different) {
  constexpr int kLeast = 4;
  const int most = NgramCounts::MostOrder(vocab);
  if (most <= kLeast || !(different > 1)) return most;
  const double order = std::log(4 * static_cast<double>(targets)) / std::log(different);
  return static_cast<int>(std::clamp(order, double{kLeast}, static_cast<double>(most)));
}

namespace {

// Always the mean of the train split, which is 0 as batches give numbers.
Baselines MeanOfTraining(const Dataset& data, const BaselineOptions& options) {
  Baselines result{.length = data.Length(options.length)};
  Score score;
  const int64_t batch = std::max<int64_t>(1, kTokensOfBatch / result.length);
  const int64_t batches = data.Batches(options.split, batch, result.length);
  for (int64_t i = 0; i < batches && result.all_evaluated; ++i) {
    const Batch part =
        data.EvalBatch(options.split, {.index = i, .batch = batch, .length = result.length});
    const size_t length = part.values.size() / static_cast<size_t>(part.batch);
    for (size_t at = 0; at < part.values.size(); ++at) {
      if (at % length == 0 && score.count >= options.eval_tokens) result.all_evaluated = false;
      if (!result.all_evaluated) break;
      const auto value = static_cast<double>(part.values[at]);
      if (!std::isnan(value)) score += {.loss = value * value, .correct = 0, .count = 1};
    }
  }
  if (score.count == 0)
    Throw(ErrorCode::kInvalidData, "baselines", "the {} split has no targets", Name(options.split));
  result.evaluated = score.count;
  result.baselines = {{.name = "mean of training", .score = score}};
  return result;
}

}  // namespace

Baselines MeasureBaselines(const Dataset& data, const BaselineOptions& options) {
  if (options.task == Task::kRegress) return MeanOfTraining(data, options);
  Baselines result{.length = data.Length(options.length)};
  const bool classes = data.classes() > 0;
  const int64_t answers = classes ? data.classes() : data.vocab();
  // Some neighbours of a masked token are hidden too, so only what is shown in its place is used.
  const bool masked = options.task == Task::kMasked;
  NgramCounts ngrams(answers, classes ? 1 : masked ? 2 : NgramCounts::MostOrder(answers));
  std::vector<int64_t> counts(static_cast<size_t>(answers));
  const Passed counted = ForEachTarget(data,
                                       {.split = Split::kTrain,
                                        .length = result.length,
                                        .most = options.most_tokens,
                                        .title = "count",
                                        .masked = masked,
                                        .quiet = options.quiet},
                                       [&](std::span<const int32_t> context, int32_t target, int) {
                                         ++counts[static_cast<size_t>(target)];
                                         ngrams.Add(context, target);
                                       });
  result.counted = counted.targets;
  result.all_counted = counted.all;
  result.frequencies = Sorted(counts);
  double entropy = 0;
  for (const TargetCount& each : result.frequencies) {
    const double share = static_cast<double>(each.count) / static_cast<double>(counted.targets);
    entropy -= share * std::log(share);
  }
  if (!masked && !classes) ngrams.Limit(OrderFor(answers, counted.targets, std::exp(entropy)));
  const NgramModel model(std::move(ngrams));

  std::vector<Baseline> ranks(static_cast<size_t>(model.order()));
  std::vector<bool> occurs(static_cast<size_t>(answers));
  for (const TargetCount& each : result.frequencies)
    occurs[static_cast<size_t>(each.target)] = true;
  std::array<int64_t, kMaskings> asked_by_kind{};
  const Passed evaluated =
      ForEachTarget(data,
                    {.split = options.split,
                     .length = result.length,
                     .most = options.eval_tokens,
                     .title = "evaluate",
                     .masked = masked,
                     .quiet = options.quiet},
                    [&](std::span<const int32_t> context, int32_t target, int kind) {
                      occurs[static_cast<size_t>(target)] = true;
                      ++asked_by_kind[static_cast<size_t>(kind)];
                      for (size_t i = 0; i < ranks.size(); ++i) {
                        const auto seen = context.last(std::min(i, context.size()));
                        const Score score{.loss = -std::log(model.Probability(seen, target)),
                                          .correct = model.Best(seen) == target ? 1 : 0,
                                          .count = 1};
                        ranks[i].score += score;
                        ranks[i].by_masking[static_cast<size_t>(kind)] += score;
                      }
                    });
  result.evaluated = evaluated.targets;
  result.all_evaluated = evaluated.all;
  const auto different = static_cast<double>(std::ranges::count(occurs, true));
  const auto guessed = [&](int64_t targets) {
    return Score{.loss = static_cast<double>(targets) * std::log(different),
                 .correct = std::llround(static_cast<double>(targets) / different),
                 .count = targets};
  };
  result.baselines.push_back({.name = "uniform", .score = guessed(evaluated.targets)});
  for (size_t kind = 0; kind < asked_by_kind.size(); ++kind)
    result.baselines.back().by_masking[kind] = guessed(asked_by_kind[kind]);
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].name = NameOf(static_cast<int>(i) + 1, classes, masked);
    result.baselines.push_back(std::move(ranks[i]));
  }
  return result;
}

}  // namespace favor::reports
