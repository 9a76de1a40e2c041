// Error against time for every estimator over the number of features, with exact attention and
// uniform attention as the two ends: the picture that decides for a user.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/outputs.h"
#include "favor/attention.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDim = 64;
constexpr double kDeviations[] = {0.25, 0.5};  // of queries and keys
constexpr int64_t kFeatures[] = {16, 64, 256, 1024};
constexpr const char* kMaps[] = {"positive", "hyperbolic", "oprf", "regularized", "trigonometric"};

class TimeStudy {
 public:
  explicit TimeStudy(ExperimentRun& run)
      : run_(run),
        lengths_(run.scale == Scale::kQuick ? std::vector<int64_t>{2048}
                                            : std::vector<int64_t>{2048, 16384, 131072}),
        progress_("times", std::ssize(kDeviations) * std::ssize(lengths_) * std::ssize(kMaps),
                  run.quiet) {}

  void Run() {
    run_.report.AddText(
        "Exact attention has no error and takes a time that grows with the square of the length; "
        "uniform attention, the mean of all values, takes next to none. An estimate is of use "
        "where "
        "it is faster than the one and better than the other.");
    reports::Table table{
        .title = "Error against time",
        .caption = fmt::format("One head of dim {}, {} threads. Times are the shortest of {} runs "
                               "(exact attention of more than 16,384 tokens: of one); an error is "
                               "|out − exact|/|exact|, the mean of as many draws of ω, with its "
                               "standard error; seed {}.",
                               kDim, run_.context.threads(), run_.draws, run_.context.seed()),
        .columns = {"deviation", "L", "attention", "m", "ms", "error"},
        .rows = {}};
    for (const double deviation : kDeviations) {
      for (const int64_t length : lengths_) AddTimes(deviation, length, table);
    }
    run_.report.AddTable(table);
  }

 private:
  void AddTimes(double deviation, int64_t length, reports::Table& table) {
    const RandomInputs in(length, kDim, deviation, run_.context.seed());
    reports::Plot plot{
        .title = fmt::format("Error against time, L = {}, deviation {}", length, deviation),
        .caption =
            "The vertical line is the time of exact attention, the horizontal one the error "
            "of uniform attention, from its own time on: what is right of the one or above the "
            "other is of no "
            "use.",
        .x_label = "milliseconds",
        .y_label = "relative error",
        .log_x = true,
        .log_y = true,
        .series = {}};
    const auto add = [&](std::string_view name, int64_t features, double seconds,
                         const Measured& error) {
      table.rows.push_back({fmt::format("{}", deviation), std::to_string(length), std::string(name),
                            features > 0 ? std::to_string(features) : "—",
                            fmt::format("{:.2f}", 1e3 * seconds), error.ToText()});
      run_.results["times"].push_back({{"deviation", deviation},
                                       {"length", length},
                                       {"attention", name},
                                       {"features", features},
                                       {"seconds", seconds},
                                       {"error", error.value},
                                       {"standard_error", error.standard_error}});
    };
    Tensor exact;
    const double exact_seconds = LeastSeconds(length > 16384 ? 1 : static_cast<int>(run_.draws),
                                              [&] { exact = Call(in, {.attention = "exact"}); });
    add("exact", 0, exact_seconds, {});
    double lowest = INFINITY, highest = 0;
    int color = 0;
    for (const char* map : kMaps) {
      reports::Series series{.name = map, .points = {}, .color = color++};
      for (const int64_t features : kFeatures) {
        double seconds = INFINITY;
        std::vector<double> errors;
        for (int64_t draw = 0; draw < run_.draws; ++draw) {
          const AttentionOptions options{
              .plan = FeaturePlan::Draw({.map = map, .features = features}, 1, kDim,
                                        run_.context.seed(), static_cast<uint64_t>(draw))};
          Tensor out;
          seconds = std::min(seconds, LeastSeconds(1, [&] { out = Call(in, options); }));
          errors.push_back(RelativeError(out, exact));
        }
        const Measured error = Summarize(errors).mean;
        add(map, features, seconds, error);
        series.points.emplace_back(1e3 * seconds, error.value);
        lowest = std::min(lowest, error.value);
        highest = std::max(highest, error.value);
      }
      plot.series.push_back(std::move(series));
      progress_.Update(++done_, fmt::format("L = {}, {}", length, map));
    }
    Tensor mean;
    const double mean_seconds = LeastSeconds(static_cast<int>(run_.draws),
                                             [&] { mean = Call(in, {.attention = "uniform"}); });
    const double uniform = RelativeError(mean, exact);
    add("uniform", 0, mean_seconds, {uniform});
    plot.series.push_back(
        {.name = "uniform",
         .points = {{1e3 * mean_seconds, uniform}, {1e3 * exact_seconds, uniform}},
         .color = 6});
    plot.series.push_back({.name = "exact",
                           .points = {{1e3 * exact_seconds, std::min(lowest, uniform)},
                                      {1e3 * exact_seconds, std::max(highest, uniform)}},
                           .color = 7});
    run_.report.AddPlot(plot);
  }

  Tensor Call(const RandomInputs& in, const AttentionOptions& options) const {
    return Attend(in.q, in.k, in.v, options, run_.context);
  }

  ExperimentRun& run_;
  std::vector<int64_t> lengths_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment TimesExperiment() {
  return {.name = "times",
          .summary = "error against time of every estimator, at three lengths",
          .subject = "Beyond the paper",
          .draws = {.quick = 2, .full = 4, .paper = 16},
          .seconds = {.quick = 2, .full = 250, .paper = 600},
          .run = [](ExperimentRun& run) { TimeStudy(run).Run(); }};
}

}  // namespace favor::experiments
