// favor linearise: the dense feed-forward layers of a trained model as products of features.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/train.h"
#include "train/linearise.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data;
  train::LineariseOptions options;
  bool per_layer = false, json = false;
  ContextArguments run;
};

Json ToJson(const train::LineariseReport& report) {
  Json layers = Json::array();
  for (const train::LayerReport& layer : report.layers)
    layers.push_back({{"low", layer.range.low},
                      {"high", layer.range.high},
                      {"mean_width", layer.mean_width},
                      {"bias", layer.errors.bias},
                      {"variance", layer.errors.variance},
                      {"linear", layer.errors.linear},
                      {"units", layer.units},
                      {"usable_units", layer.usable_units},
                      {"usable", layer.IsUsable()}});
  return {{"layers", layers},
          {"loss_before", report.before.MeanLoss()},
          {"loss_after", report.after.MeanLoss()},
          {"flops", report.flops},
          {"dense_flops", report.dense_flops}};
}

void Run(const Arguments& a) {
  const TrainedModel trained = LoadTrained(a.model);
  const Context context = a.run.Make();
  train::LineariseOptions options = a.options;
  options.per_unit = !a.per_layer;
  const train::LineariseReport report =
      train::Linearise(trained, *OpenDataOf(trained, a.data), options, context);
  if (a.json) return PrintJson(ToJson(report));
  for (size_t layer = 0; layer < report.layers.size(); ++layer) {
    const train::LayerReport& one = report.layers[layer];
    fmt::print("layer {}: w·x + b from {:.2f} to {:.2f}, of one unit {:.2f} wide on average; {}\n",
               layer, one.range.low, one.range.high, one.mean_width, one.Text());
  }
  fmt::print("operations per token and layer: {:.3g}, dense {:.3g}\n", report.flops,
             report.dense_flops);
  fmt::print("valid: loss {:.4f}, before {:.4f}\n", report.after.MeanLoss(),
             report.before.MeanLoss());
  fmt::print("run: {}\n", Printable(options.out));
}

void Declare(Options& options, Arguments& a) {
  options.Path("--model", "PATH", a.model, "A checkpoint, or the folder of a run").Required();
  options.Path("--data", "FILE|task:NAME", a.data,
               "Data for calibration and evaluation, instead of the run's");
  options.Path("--out", "DIR", a.options.out, "Folder of the new run").Required();
  a.options.layers.range = 0;
  options.Integer("--degree", {1, Linearisation::kMaxDegree}, a.options.layers.degree,
                  "Degree of the polynomials; 1: straight lines");
  options.Integer("--columns", {0, Linearisation::kMaxColumns}, a.options.layers.columns,
                  "Random columns of all degrees above 1");
  options.Flag("--exact-quadratic", a.options.layers.exact_quadratic,
               "Degree 2 by all products of two inputs, without random columns");
  options.Flag("--per-layer", a.per_layer, "One polynomial for all units of a layer");
  options.Integer("--batches", {1, 1 << 20}, a.options.batches,
                  "Batches of the train split for calibration");
  a.run.AddThreads(options);
  options.Flag("--json", a.json, "Print the result as JSON");
}

}  // namespace

Command LineariseCommand() {
  return {.name = "linearise",
          .summary = "Turn dense feed-forward layers of a trained model into linearised ones",
          .example = "favor linearise --model run --out linearised --degree 2 --columns 1024",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
