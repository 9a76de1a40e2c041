// A sweep of one parameter of a separation experiment: table, plot and figures.
#ifndef FAVOR_EXPERIMENTS_SEPARATION_SWEEP_H_
#define FAVOR_EXPERIMENTS_SEPARATION_SWEEP_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/progress.h"
#include "experiments/experiment.h"
#include "experiments/separation.h"

namespace favor::experiments {

struct SweepPoint {
  Events events;
  std::optional<double> closed_form;  // what theory says of one of the shares
  bool outside = false;               // the parameters are not those of the paper's definitions
};

struct Sweep {
  std::string parameter;  // "n"
  std::string rest;       // the other parameters, for the caption
  std::vector<double> values;
  std::function<SweepPoint(double)> measure;
  std::string closed_form = {};  // of which share, if there is one
};

// first, first + step, … up to last.
std::vector<double> Grid(double first, double step, double last);

// Measures every value, or every eighth in quick runs, and adds a table, a plot and figures under
// the parameter's name. Returns the points, with their values.
std::vector<std::pair<double, SweepPoint>> RunSweep(const Sweep& sweep, ExperimentRun& run);

// Adds a table of one point, and its figures as "measured"; `parameters` are those of the point, as
// text.
void RunPoint(const SweepPoint& point, const std::string& parameters, ExperimentRun& run);

// Parameters that points of several experiments share.
inline constexpr PointParameter kTokensParameter{
    .name = "n", .help = "Tokens", .least = 2, .most = 100'000, .whole = true};
inline constexpr PointParameter kDimParameter{
    .name = "d", .help = "Dim of tokens", .least = 2, .most = 4096, .whole = true};
inline constexpr PointParameter kHiddenParameter{
    .name = "m", .help = "Hidden units", .least = 1, .most = 10'000, .whole = true};
inline constexpr PointParameter kZeroParameter{
    .name = "a0", .help = "Size of the one token in D0", .least = 0, .most = 100};
inline constexpr PointParameter kOneParameter{
    .name = "a1", .help = "Size of the one token in D1", .least = 0, .most = 100};
inline constexpr PointParameter kThresholdParameter{
    .name = "tau", .help = "Threshold τ of the hidden units", .least = 0, .most = 1000};

// The success ratio with its standard error.
Measured SuccessOf(const SweepPoint& point);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_SWEEP_H_
