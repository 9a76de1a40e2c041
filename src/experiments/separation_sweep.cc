#include "experiments/separation_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace favor::experiments {
namespace {

constexpr const char* kNetworks[] = {"softmax, D1", "linear, D1", "softmax, D0", "linear, D0"};
constexpr size_t kQuickStep = 8;

}  // namespace

std::vector<double> Grid(double first, double step, double last) {
  std::vector<double> values;
  for (int i = 0; first + i * step <= last + 1e-6 * step; ++i)
    values.push_back(std::round((first + i * step) * 1e6) / 1e6);
  return values;
}

Measured SuccessOf(const SweepPoint& point) {
  const auto n = static_cast<double>(point.events.trials);
  const double hits = std::clamp(static_cast<double>(point.events.separated), 1.0,
                                 std::max(1.0, n - 1)),
               shifted = hits / n;
  return {.value = static_cast<double>(point.events.separated) / n,
          .standard_error = std::sqrt(shifted * (1 - shifted) / n)};
}

std::vector<std::pair<double, SweepPoint>> RunSweep(const Sweep& sweep, ExperimentRun& run) {
  std::vector<double> values;
  for (size_t i = 0; i < sweep.values.size(); ++i)
    if (run.scale != Scale::kQuick || i % kQuickStep == 0) values.push_back(sweep.values[i]);

  reports::Table table{
      .title = fmt::format("Success against {}", sweep.parameter),
      .caption = fmt::format("{}; {} trials, seed {}. Success: softmax attention fires on D1 and "
                             "nothing else fires, with Wilson's 95 % interval; then the share of "
                             "trials in which each network fires. * : outside of the ranges of the "
                             "paper's definitions.",
                             sweep.rest, run.draws, run.context.seed()),
      .columns = {sweep.parameter, "success"},
      .rows = {}};
  const std::string closed_name = fmt::format("{}, closed form", sweep.closed_form);
  for (const char* network : kNetworks) table.columns.emplace_back(network);
  if (!sweep.closed_form.empty()) table.columns.push_back(closed_name);
  reports::Plot plot{.title = fmt::format("Success against {}", sweep.parameter),
                     .caption = sweep.rest + ".",
                     .x_label = sweep.parameter,
                     .y_label = "share of trials",
                     .from_zero = true,
                     .series = {{.name = "success", .points = {}, .color = 0}}};
  for (size_t i = 0; i < 4; ++i)
    plot.series.push_back({.name = kNetworks[i], .points = {}, .color = static_cast<int>(i) + 1});
  reports::Series closed{.name = closed_name, .points = {}, .color = 6};

  std::vector<std::pair<double, SweepPoint>> points;
  Progress progress(fmt::format("success against {}", sweep.parameter), std::ssize(values),
                    run.quiet);
  for (const double value : values) {
    const SweepPoint point = sweep.measure(value);
    const Share success = ShareOf(point.events.separated, point.events.trials);
    std::vector<std::string>& cells = table.rows.emplace_back(std::vector<std::string>{
        fmt::format("{:g}{}", value, point.outside ? " *" : ""), success.ToText()});
    plot.series[0].points.emplace_back(value, success.value);
    Json fired = Json::array();
    for (size_t i = 0; i < 4; ++i) {
      const double share =
          static_cast<double>(point.events.fired[i]) / static_cast<double>(point.events.trials);
      cells.push_back(fmt::format("{:.3f}", share));
      plot.series[i + 1].points.emplace_back(value, share);
      fired.push_back(share);
    }
    if (!sweep.closed_form.empty()) {
      cells.push_back(fmt::format("{:.3f}", point.closed_form.value()));
      closed.points.emplace_back(value, *point.closed_form);
    }
    run.results["sweeps"][sweep.parameter].push_back({{"value", value},
                                                      {"success", success.value},
                                                      {"low", success.low},
                                                      {"high", success.high},
                                                      {"fired", fired},
                                                      {"outside", point.outside}});
    points.emplace_back(value, point);
    progress.Update(std::ssize(points), fmt::format("{:g}", value));
  }
  if (!closed.points.empty()) plot.series.push_back(std::move(closed));
  run.report.AddTable(table);
  run.report.AddPlot(plot);
  return points;
}

}  // namespace favor::experiments
