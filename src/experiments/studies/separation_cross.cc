// Cross-attention: one query with a large first coordinate, seen by softmax and not by linear
// attention (Superiority of Softmax, Figure 7).
#include <fmt/format.h>

#include <cmath>

#include "experiments/separation_sweep.h"

namespace favor::experiments {
namespace {

constexpr double kThreshold = 0.9, kFailing = 0.01;  // τ and δ
constexpr double kHigh = 0.9;

struct Point {
  int64_t n = 200, d = 11, hidden = 10;
  double a0 = 0.01, a1 = 3, tau = kThreshold;
  Stack stack = Stack::kWhole;

  bool Outside() const { return a0 >= 0.1 || a1 < 1 || n % (d - 1) != 0 || tau != kThreshold; }
};

int64_t HiddenFor(double n) { return std::lround(std::log(n / kFailing)); }

// The point that a user asks for.
Point PointOf(const GivenPoint& given) {
  Point point;
  point.n = given.WholeAt("n", point.n);
  point.d = given.WholeAt("d", point.d);
  point.hidden = given.WholeAt("m", HiddenFor(static_cast<double>(point.n)));
  point.a0 = given.At("a0", point.a0);
  point.a1 = given.At("a1", point.a1);
  point.tau = given.At("tau", point.tau);
  if (given.allow) point.stack = Stack::kCut;
  return point;
}

void Run(ExperimentRun& run) {
  run.report.AddText(fmt::format(
      "Queries have ln n in all columns but the first; keys are unit vectors in d − 1 groups, and "
      "one key has 1 in the first column, too. In D1 one query has a1 ln n there instead of a0 ln "
      "n. τ = {}, m = ln(n/{}).",
      kThreshold, kFailing));
  const RandomStream stream(run.context.seed(), "separation cross");
  uint64_t figure = 0;
  const auto measure = [&](const Point& point) {
    const auto tokens = [&](double a) {
      return CrossTokens({.tokens = point.n, .dim = point.d, .a = a, .stack = point.stack});
    };
    return SweepPoint{
        .events = CountEvents(OutputsOfFour(tokens(point.a1), tokens(point.a0), Between::kIdentity),
                              {.count = run.draws, .hidden = point.hidden, .threshold = point.tau},
                              stream.Child(++figure), run.context),
        .closed_form = 1 - std::pow(0.75, static_cast<double>(point.hidden)),
        .outside = point.Outside()};
  };
  if (!run.point.empty()) {
    const Point point = PointOf(run.point);
    return RunPoint(measure(point),
                    fmt::format("n = {}, d = {}, m = {}, a0 = {:g}, a1 = {:g}, τ = {:g}", point.n,
                                point.d, point.hidden, point.a0, point.a1, point.tau),
                    run);
  }
  const auto sweep = [&](const std::string& parameter, const std::string& rest,
                         const std::vector<double>& values, const auto& make) {
    return RunSweep({.parameter = parameter,
                     .rest = rest,
                     .values = values,
                     .measure = [&](double value) { return measure(make(value)); },
                     .closed_form = parameter == "m" ? "softmax, D1" : ""},
                    run);
  };
  const auto sizes = sweep("n", "d = 11, m = ln(n/0.01)", Grid(200, 10, 1000), [](double n) {
    return Point{.n = static_cast<int64_t>(n), .hidden = HiddenFor(n)};
  });
  sweep("d", "n = 200, m = 10", {2, 3, 5, 6, 9, 11, 21, 26, 41, 51},
        [](double d) { return Point{.d = static_cast<int64_t>(d)}; });
  sweep("m", "n = 200, d = 11", Grid(1, 1, 80),
        [](double m) { return Point{.hidden = static_cast<int64_t>(m)}; });
  sweep("a1", "n = 200, d = 11, m = 10", Grid(0.1, 0.036, 3),
        [](double a1) { return Point{.a1 = a1}; });
  sweep("a0", "n = 200, d = 11, m = 10", Grid(0.01, 0.01, 0.9),
        [](double a0) { return Point{.a0 = a0}; });
  std::vector<Comparison> high;
  for (const auto& [n, point] : sizes) high.push_back({SuccessOf(point), kHigh});
  run.claims.push_back({.source = "the theorem, at the paper's d = 11",
                        .statement = fmt::format("softmax separates and linear attention does not, "
                                                 "with probability at least {}",
                                                 kHigh),
                        .measured = NearestToBound(high, Bound::kLeast),
                        .verdict = AllAtLeast(high, 0.05)});
}

}  // namespace

Experiment SeparationCrossExperiment() {
  return {.name = "separation-cross",
          .summary = "one query among n: cross-attention",
          .subject = "Superiority of Softmax, Figure 7",
          .draws = {.quick = 20, .full = 2000, .paper = 10000},
          .seconds = {.quick = 1, .full = 6, .paper = 30},
          .run = Run,
          .parameters = {kTokensParameter, kDimParameter, kHiddenParameter, kZeroParameter,
                         kOneParameter, kThresholdParameter},
          .has_rules = true};
}

}  // namespace favor::experiments
