// The error of attention's output with every estimator, over the number of features (Performers,
// Figure 4), next to uniform attention, which ignores queries and keys; and what a small constant
// that is added to features, as in public implementations, does to it.
#include <fmt/format.h>

#include <cmath>

#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/outputs.h"
#include "favor/attention.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDim = 16;
constexpr double kDeviations[] = {1, 0.5};  // of queries and keys
constexpr const char* kMaps[] = {"positive", "trigonometric", "hyperbolic", "regularized", "oprf"};
constexpr const char* kProjections[] = {"gaussian", "orthogonal"};

constexpr int64_t kEpsilonDim = 64, kEpsilonFeatures = 256;
constexpr int64_t kEpsilonDraws = 8;
constexpr double kShort = 0.25, kUnit = 1;  // deviations on which there is a verdict
constexpr double kEpsilonDeviations[] = {kShort, 0.5, kUnit, 2, 4, 8};
constexpr double kSmall = 0.01;  // a change of the output that nobody would notice

class AttentionStudy {
 public:
  explicit AttentionStudy(ExperimentRun& run)
      : run_(run),
        length_(ByScale<int64_t>{512, 4096, 4096}.At(run.scale)),
        widths_(run.scale == Scale::kPaper
                    ? std::vector<int64_t>{16, 32, 64, 128, 256, 512, 1024, 2048}
                    : std::vector<int64_t>{16, 32, 64, 128, 256}),
        progress_("attention", std::ssize(kDeviations) * run.draws + std::ssize(kEpsilonDeviations),
                  run.quiet) {}

  void Run() {
    run_.report.AddText(fmt::format(
        "One head, L = {}, d = {}: queries, keys and values are normal, values with "
        "deviation 1. An error is the mean squared difference to the output of exact attention, "
        "over {} samples of inputs and ω. r counts the columns of φ: trigonometric and hyperbolic "
        "features have two for each row of ω. Uniform attention, the mean of the values, is what "
        "an estimate must beat to be worth anything.",
        length_, kDim, run_.draws));
    for (const double deviation : kDeviations) Measure(deviation);
    MeasureEpsilon();
  }

 private:
  // errors[map][projection][width][sample]
  using Errors = std::vector<std::vector<std::vector<std::vector<double>>>>;

  void Measure(double deviation) {
    Errors errors(
        std::size(kMaps),
        std::vector(std::size(kProjections), std::vector(widths_.size(), std::vector<double>())));
    std::vector<double> uniform;
    for (int64_t sample = 0; sample < run_.draws; ++sample) {
      const RandomInputs in(length_, kDim, deviation, SeedOfSample(run_.context.seed(), sample));
      const auto call = [&](const AttentionOptions& options) {
        return Attend(in.q, in.k, in.v, options, run_.context);
      };
      const Tensor exact = call({.attention = "exact"});
      uniform.push_back(MeanSquaredError(call({.attention = "uniform"}), exact));
      for (size_t map = 0; map < std::size(kMaps); ++map) {
        const int64_t parts = FindMap(kMaps[map]).parts;
        for (size_t projection = 0; projection < std::size(kProjections); ++projection) {
          for (size_t width = 0; width < widths_.size(); ++width) {
            const auto plan =
                FeaturePlan::Draw({.map = kMaps[map],
                                   .projection = kProjections[projection],
                                   .features = widths_[width] / parts},
                                  1, kDim, run_.context.seed(), static_cast<uint64_t>(sample));
            errors[map][projection][width].push_back(MeanSquaredError(call({.plan = plan}), exact));
          }
        }
      }
      progress_.Update(++done_, fmt::format("deviation {}", deviation));
    }
    AddErrors(deviation, errors, uniform);
    AddClaims(deviation, errors, uniform);
  }

  void AddErrors(double deviation, const Errors& errors, const std::vector<double>& uniform) {
    reports::Table table{
        .title = fmt::format("Error of the output, deviation {}", deviation),
        .caption = fmt::format("Mean squared errors with standard errors, {} samples, L = {}, d = "
                               "{}, seed {}.",
                               run_.draws, length_, kDim, run_.context.seed()),
        .columns = {"map", "projection"},
        .rows = {}};
    for (const int64_t width : widths_) table.columns.push_back(fmt::format("r = {}", width));
    for (size_t map = 0; map < std::size(kMaps); ++map) {
      for (size_t projection = 0; projection < std::size(kProjections); ++projection) {
        table.rows.push_back({kMaps[map], kProjections[projection]});
        for (size_t width = 0; width < widths_.size(); ++width) {
          const Measured error = Summarize(errors[map][projection][width]).mean;
          table.rows.back().push_back(error.ToText());
          run_.results["errors"].push_back({{"deviation", deviation},
                                            {"map", kMaps[map]},
                                            {"projection", kProjections[projection]},
                                            {"columns", widths_[width]},
                                            {"error", error.value},
                                            {"standard_error", error.standard_error}});
        }
      }
    }
    const Measured baseline = Summarize(uniform).mean;
    table.rows.push_back({"uniform", "—"});
    table.rows.back().insert(table.rows.back().end(), widths_.size(), baseline.ToText());
    run_.results["uniform"].push_back({{"deviation", deviation}, {"error", baseline.value}});
    run_.report.AddTable(table);
    for (size_t projection = 0; projection < std::size(kProjections); ++projection)
      AddPlot(deviation, projection, errors, baseline.value);
  }

  void AddPlot(double deviation, size_t projection, const Errors& errors, double uniform) {
    reports::Plot plot{.title = fmt::format("Error of the output, deviation {}, {} ω", deviation,
                                            kProjections[projection]),
                       .caption =
                           "Bars: standard deviations over samples. Above the line of "
                           "uniform attention an estimate is worse than ignoring queries "
                           "and keys.",
                       .x_label = "columns of φ",
                       .y_label = "mean squared error",
                       .log_x = true,
                       .log_y = true,
                       .series = {}};
    for (size_t map = 0; map < std::size(kMaps); ++map) {
      reports::Series series{.name = kMaps[map], .points = {}, .color = static_cast<int>(map)};
      for (size_t width = 0; width < widths_.size(); ++width) {
        const Estimate estimate = Summarize(errors[map][projection][width]);
        series.points.emplace_back(static_cast<double>(widths_[width]), estimate.mean.value);
        series.deviations.push_back(std::sqrt(estimate.variance.value));
      }
      plot.series.push_back(std::move(series));
    }
    plot.series.push_back({.name = "uniform",
                           .points = {{static_cast<double>(widths_.front()), uniform},
                                      {static_cast<double>(widths_.back()), uniform}},
                           .color = 6});
    run_.report.AddPlot(plot);
  }

  // The mean of log(a/b) over widths, for each sample: pairs share their inputs.
  Comparison LogRatio(const std::vector<std::vector<double>>& a,
                      const std::vector<std::vector<double>>& b) const {
    std::vector<double> samples(a[0].size());
    for (size_t width = 0; width < a.size(); ++width) {
      for (size_t sample = 0; sample < samples.size(); ++sample)
        samples[sample] +=
            std::log(a[width][sample] / b[width][sample]) / static_cast<double>(a.size());
    }
    return {.measured = Summarize(samples).mean, .expected = 0};
  }

  void ClaimRatio(const std::string& source, const std::string& statement, const std::string& other,
                  const Comparison& ratio) {
    run_.claims.push_back(
        {.source = source,
         .statement = statement,
         .measured = fmt::format("{:.3g} times the error of {} (log {})",
                                 std::exp(ratio.measured.value), other, ratio.measured.ToText()),
         .verdict = AllAtMost({{ratio}})});
  }

  void AddClaims(double deviation, const Errors& errors, const std::vector<double>& uniform) {
    const std::string data = fmt::format(", deviation {}", deviation),
                      figure = deviation == kDeviations[0] ? "Figure 4" : "beyond Figure 4";
    ClaimRatio(figure, "positive features have a smaller error than trigonometric ones" + data,
               "trigonometric ones", LogRatio(errors[0][1], errors[1][1]));
    ClaimRatio(figure, "orthogonal rows lower the error of positive features" + data,
               "independent rows", LogRatio(errors[0][1], errors[0][0]));
    ClaimRatio(figure, "orthogonal rows lower the error of trigonometric features" + data,
               "independent rows", LogRatio(errors[1][1], errors[1][0]));
    ClaimRatio("a baseline",
               fmt::format("{} positive features beat uniform attention{}", widths_.back(), data),
               "uniform attention", LogRatio({errors[0][1].back()}, {uniform}));
  }

  // The same features, in double and without a constant, as the reference.
  void MeasureEpsilon() {
    const int64_t length = ByScale<int64_t>{128, 512, 2048}.At(run_.scale),
                  draws = std::min(run_.draws, kEpsilonDraws);
    reports::Table table{
        .title = "What an added constant does",
        .caption = fmt::format(
            "Relative change of the output, L = {}, d = {}, {} positive features, orthogonal, mean "
            "of {} draws of inputs and ω: of favor in f32 (rounding), and of the formulas of two "
            "public implementations, which add ε to every feature, in double. The reference has no "
            "ε.",
            length, kEpsilonDim, kEpsilonFeatures, draws),
        .columns = {"deviation", "favor, f32", "jax, ε = 1e-6", "torch, ε = 1e-4"},
        .rows = {}};
    std::vector<Comparison> roundings;
    for (const double deviation : kEpsilonDeviations) {
      std::vector<double> favor, jax, torch;
      for (int64_t draw = 0; draw < draws; ++draw) {
        const RandomInputs in(length, kEpsilonDim, deviation,
                              SeedOfSample(run_.context.seed(), draw));
        const auto plan = FeaturePlan::Draw({.features = kEpsilonFeatures}, 1, kEpsilonDim,
                                            run_.context.seed(), static_cast<uint64_t>(draw));
        const auto call = [&](const AttentionOptions& options) {
          return Attend(in.q, in.k, in.v, options, run_.context);
        };
        const Tensor reference = call({.reference = true, .plan = plan});
        favor.push_back(RelativeError(call({.plan = plan}), reference));
        jax.push_back(RelativeError(call({.plan = plan, .compat = Compat::kJax}), reference));
        torch.push_back(RelativeError(call({.plan = plan, .compat = Compat::kTorch}), reference));
      }
      const Measured rounding = Summarize(favor).mean, small = Summarize(jax).mean,
                     large = Summarize(torch).mean;
      roundings.push_back({rounding, kSmall});
      if (deviation == kShort || deviation == kUnit) {
        ClaimEpsilon("jax", "1e-6", deviation, small);
        ClaimEpsilon("torch", "1e-4", deviation, large);
      }
      table.rows.push_back(
          {fmt::format("{}", deviation), rounding.ToText(), small.ToText(), large.ToText()});
      Json row = {{"deviation", deviation}};
      for (const auto& [name, change] :
           {std::pair("favor", rounding), std::pair("jax", small), std::pair("torch", large)})
        row[name] = {{"change", change.value}, {"standard_error", change.standard_error}};
      run_.results["epsilon"].push_back(row);
      progress_.Update(++done_, "epsilon");
    }
    run_.report.AddTable(table);
    run_.claims.push_back(
        {.source = "favor",
         .statement = fmt::format("without a constant, f32 stays within {:.0f} % of the reference "
                                  "at deviations up to {}",
                                  100 * kSmall, kEpsilonDeviations[5]),
         .measured = NearestToBound(roundings, Bound::kMost),
         .verdict = AllAtMost(roundings)});
  }

  void ClaimEpsilon(std::string_view formulas, std::string_view epsilon, double deviation,
                    const Measured& change) {
    const Comparison comparison{change, kSmall};
    run_.claims.push_back(
        {.source = fmt::format("formulas of {}", formulas),
         .statement = fmt::format("ε = {} added to features changes the output by less than {:.0f} "
                                  "%, deviation {}",
                                  epsilon, 100 * kSmall, deviation),
         .measured = change.ToText(),
         .verdict = AllAtMost({{comparison}})});
  }

  ExperimentRun& run_;
  int64_t length_;
  std::vector<int64_t> widths_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment AttentionExperiment() {
  return {.name = "attention",
          .summary = "the error of attention's output with every estimator, and the effect of ε",
          .subject = "Figure 4",
          .draws = {.quick = 3, .full = 60, .paper = 15},
          .seconds = {.quick = 1, .full = 20, .paper = 30},
          .run = [](ExperimentRun& run) { AttentionStudy(run).Run(); }};
}

}  // namespace favor::experiments
