// Softmax regression: one large logit among n, found by softmax and not by linear weights
// (Superiority of Softmax, Figure 3).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/experiment.h"
#include "experiments/separation_sweep.h"

namespace favor::experiments {
namespace {

constexpr double kThreshold = 0.5;  // the paper leaves it open; 0.25 to 0.9 give the same
constexpr double kPrecision = 0.05;

// ln n, rounded down, and at least 1.
int64_t HiddenFor(int64_t n) {
  return std::max<int64_t>(static_cast<int64_t>(std::log(static_cast<double>(n))), 1);
}

void Run(ExperimentRun& run) {
  run.report.AddText(fmt::format(
      "n logits are uniform between 1 and 1.4 times ln n; in D1 one of them is 4 ln n. The outputs "
      "are the weights themselves, τ = {}. Softmax puts nearly all weight on the large logit, and "
      "a "
      "network of m hidden units sees it unless all of its m signs there are negative: its success "
      "is 1 − 2^(−m). The weights of linear attention are all about 1/n.",
      kThreshold));
  const RandomStream stream(run.context.seed(), "separation regression");
  uint64_t figure = 0;
  const auto measure = [&](int64_t n, int64_t hidden, double threshold = kThreshold) {
    return SweepPoint{.events = CountRegressionEvents(
                          n, {.count = run.draws, .hidden = hidden, .threshold = threshold},
                          stream.Child(++figure), run.context),
                      .closed_form = 1 - std::exp2(-static_cast<double>(hidden))};
  };
  if (!run.point.empty()) {
    const int64_t n = run.point.WholeAt("n", 1000), hidden = run.point.WholeAt("m", HiddenFor(n));
    const double threshold = run.point.At("tau", kThreshold);
    return RunPoint(measure(n, hidden, threshold),
                    fmt::format("n = {}, m = {}, τ = {:g}", n, hidden, threshold), run);
  }
  std::vector<Comparison> closed;
  const auto keep = [&](const std::vector<std::pair<double, SweepPoint>>& points) {
    for (const auto& [value, point] : points) {
      // The error that the closed form itself expects: near 1 an observed share has none.
      const double expected = point.closed_form.value(),
                   trials = static_cast<double>(point.events.trials),
                   error = std::sqrt(std::max(expected * (1 - expected), 1 / trials) / trials);
      closed.push_back({{SuccessOf(point).value, error}, expected});
    }
  };
  keep(RunSweep({.parameter = "n",
                 .rest = "m = ln n, rounded down",
                 .values = Grid(100, 10, 2000),
                 .measure =
                     [&](double n) {
                       return measure(static_cast<int64_t>(n), HiddenFor(static_cast<int64_t>(n)));
                     },
                 .closed_form = "success"},
                run));
  keep(RunSweep({.parameter = "m",
                 .rest = "n = 1000",
                 .values = Grid(1, 1, 100),
                 .measure = [&](double m) { return measure(1000, static_cast<int64_t>(m)); },
                 .closed_form = "success"},
                run));
  run.claims.push_back({.source = "the closed form",
                        .statement = "softmax separates with probability 1 − 2^(−m), and linear "
                                     "weights never fire",
                        .measured = LargestZ(closed),
                        .verdict = AllEqual(closed, kPrecision)});
}

}  // namespace

Experiment SeparationRegressionExperiment() {
  return {.name = "separation-regression",
          .summary = "one large logit: softmax finds it, linear weights do not",
          .subject = "Superiority of Softmax, Figure 3",
          .draws = {.quick = 50, .full = 1000, .paper = 2000},
          .seconds = {.quick = 1, .full = 60, .paper = 120},
          .run = Run,
          .parameters = {kTokensParameter, kHiddenParameter, kThresholdParameter}};
}

}  // namespace favor::experiments
