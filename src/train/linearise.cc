#include "train/linearise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/access.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/json.h"
#include "io/atomic_file.h"
#include "io/input_file.h"
#include "models/checkpoint.h"
#include "models/feed_forward.h"
#include "train/calibration.h"
#include "train/run_data.h"
#include "train/start.h"

namespace favor::train {
namespace {

namespace fs = std::filesystem;
using Curve = std::vector<double>;  // c_k of (t/range)^k

// The polynomial over values; over few different ones, or a single one, by Chebyshev's nodes around
// them.
Polynomial FitTo(const Function& function, std::span<const double> values, int degree) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double least = sorted.front(), most = sorted.back();
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (std::ssize(sorted) > 4 * degree && most - least > 1e-6 * std::fabs(most))
    return FitToValues(function, values, degree);
  const double margin = 1e-2 * (1 + std::fabs(most));
  return FitPolynomial(function, {least - margin, most + margin}, degree, Fit::kChebyshev);
}

// In powers of t/range instead of u = (t − middle)/half, by Horner's rule.
Curve CurveOf(const Polynomial& polynomial, double range) {
  const Interval interval = polynomial.interval();
  const long double slope = range / interval.Half(), shift = -interval.Middle() / interval.Half();
  std::vector<long double> sum(polynomial.coefficients().size());
  for (size_t k = sum.size(); k-- > 0;) {
    for (size_t j = sum.size(); j-- > 0;)
      sum[j] = shift * sum[j] + (j > 0 ? slope * sum[j - 1] : 0);
    sum[0] += polynomial.coefficients()[k];
  }
  return {sum.begin(), sum.end()};
}

double MeanSquare(const Polynomial& polynomial, const Function& function,
                  std::span<const double> values) {
  double sum = 0;
  for (const double t : values) sum += std::pow(polynomial(t) - function(t), 2);
  return sum / static_cast<double>(values.size());
}

Interval RangeOf(std::span<const double> values) {
  const auto [least, most] = std::ranges::minmax(values);
  return {least, most};
}

// The mean variance of a unit's sketches over inputs.
double VarianceOf(const Linearisation& plan, const Curve& curve, std::span<const double> weights,
                  double bias, const std::vector<std::vector<double>>& inputs) {
  const double scale = plan.polynomial.interval().Half();
  double variance = 0;
  for (const std::vector<double>& x : inputs) {
    double ww = bias * bias, xx = 1, wx = bias, squares = bias * bias;
    for (size_t i = 0; i < x.size(); ++i) {
      ww += weights[i] * weights[i];
      xx += x[i] * x[i];
      wx += weights[i] * x[i];
      squares += weights[i] * weights[i] * x[i] * x[i];
    }
    const SketchPair pair{.a = ww * xx / (scale * scale),
                          .c2 = wx * wx / (scale * scale),
                          .s2 = squares / (scale * scale)};
    for (const auto& [degree, columns] : plan.Parts()) {
      if (degree == 2 && plan.exact_quadratic) continue;
      variance += std::pow(curve[static_cast<size_t>(degree)], 2) * SketchVariance(pair, degree) /
                  static_cast<double>(columns);
    }
  }
  return variance / static_cast<double>(inputs.size());
}

class Converter {
 public:
  Converter(const TrainedModel& trained, const LineariseOptions& options)
      : from_(internal::Inside(trained.model)),
        options_(options),
        function_(models::FunctionOf(from_.config().activation)) {}

  // Fits the curves of a layer and writes them to its parameter.
  LayerReport Convert(size_t layer, const Calibration& calibration, const Linearisation& plan,
                      View curves) const {
    const std::string name = fmt::format("layers.{}.feed_forward.up.", layer);
    const ConstView weights = Named(name + "weight"), biases = Named(name + "bias");
    const auto units = static_cast<int64_t>(calibration.values.size());
    const int degree = plan.polynomial.degree();
    LayerReport report{.units = units};
    report.range = RangeOf(calibration.values[0]);
    std::optional<Polynomial> shared;
    if (!options_.per_unit) {
      std::vector<double> pooled;
      for (const auto& values : calibration.values)
        pooled.insert(pooled.end(), values.begin(), values.end());
      shared = FitTo(function_, pooled, degree);
    }
    for (int64_t unit = 0; unit < units; ++unit) {
      const std::vector<double>& values = calibration.values[static_cast<size_t>(unit)];
      const Polynomial polynomial = shared ? *shared : FitTo(function_, values, degree);
      const Curve curve = CurveOf(polynomial, plan.polynomial.interval().Half());
      std::vector<double> row;
      for (int64_t i = 0; i + 1 < plan.dim; ++i)
        row.push_back(LoadElement(weights.data(), weights.type(), unit * (plan.dim - 1) + i));
      const LinearisedErrors errors{
          .bias = MeanSquare(polynomial, function_, values),
          .variance = VarianceOf(plan, curve, row, LoadElement(biases.data(), biases.type(), unit),
                                 calibration.inputs),
          .linear = MeanSquare(FitTo(function_, values, 1), function_, values)};
      const auto share = 1 / static_cast<double>(units);
      const Interval own = RangeOf(values);
      report.range = {std::min(report.range.low, own.low), std::max(report.range.high, own.high)};
      report.mean_width += share * (own.high - own.low);
      report.errors.bias += share * errors.bias;
      report.errors.variance += share * errors.variance;
      report.errors.linear += share * errors.linear;
      if (errors.bias + errors.variance < errors.linear) ++report.usable_units;
      for (size_t k = 0; k < curve.size(); ++k)
        StoreElement(curves.data(), curves.type(), static_cast<int64_t>(k) * units + unit,
                     curve[k]);
    }
    return report;
  }

 private:
  ConstView Named(const std::string& name) const {
    for (const auto& parameter : from_.parameters().all())
      if (parameter->name == name) return parameter->value;
    Throw(ErrorCode::kInvalidData, name, "is not a parameter of the model");
  }

  const models::Network& from_;
  const LineariseOptions& options_;
  Function function_;
};

void CheckFolder(const std::string& out) {
  std::error_code ignored;
  for (const std::string_view name : {models::kConfigName, models::kLastName, models::kBestName}) {
    if (fs::exists(fs::path(out) / name, ignored))
      Throw(ErrorCode::kInvalidOption, "linearise",
            "the folder '{}' holds a run already ({}): choose another", Printable(out), name);
  }
}

// The state of the checkpoint that it was made from; the data is seen from another folder now.
std::string StateOf(const models::Checkpoint& from, const std::string& out) {
  constexpr const char* kFromHere = "data_from_here";
  Json state = ParseJson(from.info().state);
  if (!state.is_object() || !state.contains(kFromHere) || !state[kFromHere].is_string())
    return from.info().state;
  std::error_code ignored;
  const fs::path folder = fs::absolute(from.name(), ignored).parent_path();
  state[kFromHere] = (folder / state[kFromHere].get<std::string>())
                         .lexically_normal()
                         .lexically_relative(fs::absolute(out, ignored).lexically_normal())
                         .generic_string();
  return state.dump();
}

void WriteRun(const TrainedModel& trained, const models::Network& network, const std::string& out) {
  const auto from = models::OpenCheckpoint(trained.path);
  RunConfig config;
  ReadRunConfig(from->info().config, from->name(), config);
  config.init = trained.path;
  config.model = network.config();
  std::error_code error;
  fs::create_directories(out, error);
  if (error) Throw(ErrorCode::kIo, Printable(out), "cannot be made: {}", error.message());
  const auto path = [&](std::string_view name) { return (fs::path(out) / name).string(); };
  for (const FormatFile& file : kFormatFiles) {
    const std::string& source = trained.config.format.*file.path;
    if (!file.copy.empty() && !source.empty())
      io::WriteFileAtomically(path(file.copy), io::ReadRegularFile(source));
  }
  io::WriteFileAtomically(path(models::kConfigName), ToJson(config));
  models::WriteCheckpoint(path(models::kBestName), network,
                          {.config = ToJson(config), .state = StateOf(*from, out)});
}

Score Evaluate(const Model& model, const Dataset& data, const TrainConfig& training,
               const Context& context) {
  const int64_t all = data.Batches(Split::kValid, training.batch, training.length),
                batches = training.eval_batches == 0 ? all : std::min(all, training.eval_batches);
  Score score;
  for (int64_t i = 0; i < batches; ++i)
    score += model.Evaluate(
        data.EvalBatch(Split::kValid,
                       {.index = i, .batch = training.batch, .length = training.length}),
        context);
  return score;
}

}  // namespace

std::string LayerReport::Text() const {
  const std::string figures =
      fmt::format("bias {:.3g}, variance {:.3g}; straight lines {:.3g}; {} of {} units usable",
                  errors.bias, errors.variance, errors.linear, usable_units, units);
  return IsUsable() ? figures : "not usable here: straight lines are as good (" + figures + ")";
}

LineariseReport Linearise(const TrainedModel& trained, const Dataset& data,
                          const LineariseOptions& options, const Context& context) {
  if (const Device device = trained.model.placement().device; device.type != DeviceType::kCpu)
    Throw(ErrorCode::kUnavailable, "linearise", "given a model on {}, it runs on the cpu only",
          Name(device));
  CheckFolder(options.out);
  const models::Network& from = internal::Inside(trained.model);
  if (from.config().feed_forward == FeedForwardKind::kLinearised)
    Throw(ErrorCode::kInvalidOption, "linearise",
          "given '{}', whose feed-forward layers are linearised, expected dense ones",
          Printable(trained.path));
  const TrainConfig& training = trained.config.training;
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options.batches; ++i)
    batches.push_back(
        data.TrainBatch({.index = i, .batch = training.batch, .length = training.length}));
  const std::vector<Calibration> calibrations = Calibrate(from, batches, context);
  ModelConfig config = from.config();
  config.feed_forward = FeedForwardKind::kLinearised;
  config.linearised = options.layers;
  config.linearised.own_curves = true;
  for (size_t layer = 0; options.layers.range == 0 && layer < calibrations.size(); ++layer) {
    for (const std::vector<double>& values : calibrations[layer].values)
      for (const double t : values)
        config.linearised.range = std::max(config.linearised.range, std::fabs(t));
  }
  auto model = internal::Access::Make<Model>(models::Network::Make(config, {.seed = from.seed()}));
  models::Network& to = internal::Inside(model);
  CarryOver(from, to, /*outputs=*/true, context);
  const Linearisation plan = models::FeedForwardShapeOf(config, 1).linearised->linearisation;
  const Converter converter(trained, options);
  LineariseReport report;
  for (size_t layer = 0; layer < calibrations.size(); ++layer) {
    const std::string name = fmt::format("layers.{}.feed_forward.curve", layer);
    for (const auto& parameter : to.parameters().all()) {
      if (parameter->name == name)
        report.layers.push_back(
            converter.Convert(layer, calibrations[layer], plan, parameter->value));
    }
  }
  to.parameters().Refresh(context);
  report.before = Evaluate(trained.model, data, training, context);
  report.after = Evaluate(model, data, training, context);
  report.flops = plan.Flops(config.width);
  report.dense_flops = plan.DenseFlops(config.ff, config.width);
  report.config = config;
  WriteRun(trained, to, options.out);
  return report;
}

}  // namespace favor::train
