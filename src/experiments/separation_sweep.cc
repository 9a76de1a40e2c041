#include "experiments/separation_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace favor::experiments {
namespace {

constexpr const char* kNetworks[] = {"softmax, D1", "linear, D1", "softmax, D0", "linear, D0"};
constexpr size_t kQuickStep = 8;
constexpr const char* kSuccess =
    "Success: softmax attention fires on D1 and nothing else fires, with Wilson's 95 % interval; "
    "then the share of trials in which each network fires. * : outside of the ranges of the "
    "paper's definitions.";

std::array<double, 4> FiredShares(const Events& events) {
  std::array<double, 4> shares{};
  for (size_t i = 0; i < 4; ++i)
    shares[i] = static_cast<double>(events.fired[i]) / static_cast<double>(events.trials);
  return shares;
}

// Cells of a table: what the point is, success, shares.
std::vector<std::string> CellsOf(const std::string& name, const SweepPoint& point) {
  std::vector<std::string> cells = {name + (point.outside ? " *" : ""),
                                    ShareOf(point.events.separated, point.events.trials).ToText()};
  for (const double share : FiredShares(point.events))
    cells.push_back(fmt::format("{:.3f}", share));
  return cells;
}

Json FiguresOf(const SweepPoint& point) {
  const Share success = ShareOf(point.events.separated, point.events.trials);
  return {{"success", success.value},
          {"low", success.low},
          {"high", success.high},
          {"fired", FiredShares(point.events)},
          {"outside", point.outside}};
}

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

  reports::Table table{.title = fmt::format("Success against {}", sweep.parameter),
                       .caption = fmt::format("{}; {} trials, seed {}. {}", sweep.rest, run.draws,
                                              run.context.seed(), kSuccess),
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
    std::vector<std::string>& cells =
        table.rows.emplace_back(CellsOf(fmt::format("{:g}", value), point));
    plot.series[0].points.emplace_back(value, SuccessOf(point).value);
    const std::array<double, 4> fired = FiredShares(point.events);
    for (size_t i = 0; i < 4; ++i) plot.series[i + 1].points.emplace_back(value, fired[i]);
    if (!sweep.closed_form.empty()) {
      cells.push_back(fmt::format("{:.3f}", point.closed_form.value()));
      closed.points.emplace_back(value, *point.closed_form);
    }
    Json figures = FiguresOf(point);
    figures["value"] = value;
    run.results["sweeps"][sweep.parameter].push_back(std::move(figures));
    points.emplace_back(value, point);
    progress.Update(std::ssize(points), fmt::format("{:g}", value));
  }
  if (!closed.points.empty()) plot.series.push_back(std::move(closed));
  run.report.AddTable(table);
  run.report.AddPlot(plot);
  return points;
}

void RunPoint(const SweepPoint& point, const std::string& parameters, ExperimentRun& run) {
  reports::Table table{
      .title = "One point",
      .caption = fmt::format("{} trials, seed {}. {}", run.draws, run.context.seed(), kSuccess),
      .columns = {"point", "success"},
      .rows = {CellsOf(parameters, point)}};
  for (const char* network : kNetworks) table.columns.emplace_back(network);
  run.report.AddTable(table);
  run.results["measured"] = FiguresOf(point);
}

}  // namespace favor::experiments
