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

// The success ratio with its standard error.
Measured SuccessOf(const SweepPoint& point);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_SWEEP_H_
