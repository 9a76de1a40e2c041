#include "lab/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "core/progress.h"
#include "lab/ngram.h"

namespace favor::lab {
namespace {

constexpr int64_t kTokensOfBatch = 1 << 16;  // read at a time

struct Pass {
  Split split;
  int64_t length, most;
  std::string title;
  bool quiet;
};
struct Passed {
  int64_t targets = 0;
  bool all = true;
};

// visit(context, target) for the first targets of a split; the context of position i are tokens
// 0 … i of its sequence, that of a class is empty.
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
    const auto length = static_cast<size_t>(part.length);
    for (size_t at = 0; at < part.targets.size(); ++at) {
      if (part.targets[at] == kNoTarget) continue;
      if (passed.targets == pass.most) {
        progress.Update(batches);
        passed.all = false;
        return passed;
      }
      ++passed.targets;
      const size_t begin = classes ? 0 : at / length * length, end = classes ? 0 : at + 1;
      visit(std::span(part.tokens).subspan(begin, end - begin), part.targets[at]);
    }
    progress.Update(i + 1);
  }
  if (passed.targets == 0)
    Throw(ErrorCode::kInvalidData, "baselines", "the {} split asks for nothing", Name(pass.split));
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

std::string NameOf(int order, bool classes) {
  if (order > 1) return fmt::format("{}-gram", order);
  return classes ? "most frequent" : "empirical";
}

}  // namespace

Baselines MeasureBaselines(const Dataset& data, const BaselineOptions& options) {
  Baselines result{.length = data.Length(options.length)};
  const bool classes = data.classes() > 0;
  const int64_t answers = classes ? data.classes() : data.vocab();
  // Counted with a context only where nothing of it is hidden.
  NgramCounts ngrams(answers, classes || options.task != "causal" ? 1 : NgramCounts::kMostOrder);
  std::vector<int64_t> counts(static_cast<size_t>(answers));
  const Passed counted = ForEachTarget(data,
                                       {.split = Split::kTrain,
                                        .length = result.length,
                                        .most = options.most_tokens,
                                        .title = "count",
                                        .quiet = options.quiet},
                                       [&](std::span<const int32_t> context, int32_t target) {
                                         ++counts[static_cast<size_t>(target)];
                                         ngrams.Add(context, target);
                                       });
  result.counted = counted.targets;
  result.all_counted = counted.all;
  result.frequencies = Sorted(counts);
  const NgramModel model(std::move(ngrams));

  std::vector<Score> scores(static_cast<size_t>(model.order()));
  const Passed evaluated =
      ForEachTarget(data,
                    {.split = options.split,
                     .length = result.length,
                     .most = options.eval_tokens,
                     .title = "evaluate",
                     .quiet = options.quiet},
                    [&](std::span<const int32_t> context, int32_t target) {
                      for (size_t i = 0; i < scores.size(); ++i) {
                        const auto seen = context.last(std::min(i, context.size()));
                        scores[i] += {.loss = -std::log(model.Probability(seen, target)),
                                      .correct = model.Best(seen) == target ? 1 : 0,
                                      .count = 1};
                      }
                    });
  result.evaluated = evaluated.targets;
  result.all_evaluated = evaluated.all;
  const auto all = static_cast<double>(answers), asked = static_cast<double>(evaluated.targets);
  result.baselines.push_back({"uniform",
                              {.loss = asked * std::log(all),
                               .correct = std::llround(asked / all),
                               .count = evaluated.targets}});
  for (size_t i = 0; i < scores.size(); ++i)
    result.baselines.push_back({NameOf(static_cast<int>(i) + 1, classes), scores[i]});
  return result;
}

}  // namespace favor::lab
