// Every map and projection on one pair of vectors: is the estimate unbiased, and is its error what
// the formulas predict? Then how the error of the softmax estimators falls with m and grows with ‖x
// + y‖ (Performers, Lemma 2, Theorem 2; Figure 2).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "features/projection.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDim = 16;
constexpr int64_t kFeatures = 32;
constexpr double kNorm = 0.8;   // norm of x and of y
constexpr double kAngle = 1.2;  // angle between x and y, in radians
constexpr const char* kSoftmaxMaps[] = {"positive", "hyperbolic", "trigonometric", "oprf",
                                        "regularized"};

std::string Cell(std::optional<double> value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "—";
}

struct Row {
  FeatureOptions options;
  std::vector<double> x, y;
};

// Measured and predicted errors, as shares of the kernel.
struct Outcome {
  std::optional<double> kernel, predicted;
  double measured = 0;
  Estimate estimate;
};

Outcome Measure(const Row& row, int64_t draws, const Context& context) {
  const auto plan = FeaturePlan::Draw(row.options, 1, kDim, context.seed());
  Outcome outcome{.kernel = plan.Kernel(row.x, row.y),
                  .predicted = plan.ExpectedMse(row.x, row.y),
                  .estimate = MeasureEstimator(row.options, row.x, row.y, draws, context)};
  const double scale = std::fabs(outcome.kernel.value_or(outcome.estimate.mean));
  outcome.measured = std::sqrt(outcome.estimate.variance) / scale;
  if (outcome.predicted) outcome.predicted = std::sqrt(*outcome.predicted) / scale;
  return outcome;
}

// The optimal A of oprf for this pair.
std::vector<double> PairA(const std::vector<double>& x, const std::vector<double>& y) {
  double square = 0;
  for (size_t i = 0; i < x.size(); ++i) square += (x[i] + y[i]) * (x[i] + y[i]);
  return {OptimalOprfA(square, kDim)};
}

FeatureOptions OptionsFor(std::string_view map, std::string_view projection, int64_t features,
                          const std::vector<double>& x, const std::vector<double>& y) {
  FeatureOptions options{
      .map = std::string(map), .projection = std::string(projection), .features = features};
  if (FindMap(map).takes_a) options.oprf_a = PairA(x, y);
  return options;
}

class EstimatorStudy {
 public:
  explicit EstimatorStudy(ExperimentRun& run)
      : run_(run), progress_("estimators", Steps(), run.quiet) {}

  void Run() {
    run_.report.AddText(fmt::format(
        "A feature map turns a kernel into a dot product of random features: the mean "
        "of φ(x)·φ(y) over draws of ω is "
        "K(x, y). Here the mean and the spread of {} draws of every map stand next to "
        "what the formulas predict "
        "(docs/mathematics.md). |z| is the distance of the mean from K in standard "
        "errors: above 4 it is a bias, which only "
        "hadamard and givens may have (below 1 % and 2.5 % of K if d is a power of two).",
        run_.draws));
    CompareAll();
    Sweep("Error against the number of features",
          "Lines: predicted; points: measured. Every estimator falls like 1/√m; orthogonal rows "
          "lower the level.",
          "features m", {4, 8, 16, 32, 64, 128, 256}, true,
          [](double m) { return std::pair(static_cast<int64_t>(m), kNorm); });
    Sweep("Error against the size of x + y",
          "Lines: predicted; points: measured, m = 32. Positive features grow like exp(|x+y|²/2) "
          "and oprf far more slowly; the "
          "trigonometric ones are best only while the vectors are short.",
          "|x + y|", {0.25, 0.5, 1, 1.5, 2, 2.5, 3}, false,
          [](double sum) { return std::pair(kFeatures, sum / (2 * std::cos(kAngle / 2))); });
  }

 private:
  static constexpr int64_t kSweepPoints = 7;

  static int64_t Steps() {
    int64_t random = 0;
    for (const features::ProjectionEntry& projection : features::AllProjections())
      random += projection.random ? 1 : 0;
    return std::ranges::count(Maps(), true, &FeatureMapInfo::has_omega) * random +
           2 * kSweepPoints * 2 * static_cast<int64_t>(std::size(kSoftmaxMaps));
  }

  void CompareAll() {
    const auto [x, y] = GenericPair(kDim, kNorm, kAngle, run_.context.seed());
    reports::Table table{
        .title = "All maps and projections",
        .caption = fmt::format(
            "d = {}, m = {}, |x| = |y| = {}, angle {} rad, {} draws. Errors are root mean "
            "squares as shares of K; — : no formula is known.",
            kDim, kFeatures, kNorm, kAngle, run_.draws),
        .columns = {"map", "projection", "kernel", "K", "mean", "|z|", "predicted", "measured",
                    "ratio"},
        .rows = {}};
    for (const FeatureMapInfo& map : Maps()) {
      if (!map.has_omega) continue;  // not an estimator: nothing is drawn
      for (const features::ProjectionEntry& entry : features::AllProjections()) {
        if (!entry.random) continue;
        const ProjectionInfo& projection = entry.info;
        const Row row{OptionsFor(map.name, projection.name, kFeatures, x, y), x, y};
        const Outcome outcome = Measure(row, run_.draws, run_.context);
        const std::optional<double> z =
            outcome.kernel ? std::optional(std::fabs(outcome.estimate.mean - *outcome.kernel) /
                                           outcome.estimate.standard_error)
                           : std::nullopt;
        const std::optional<double> ratio =
            outcome.predicted ? std::optional(outcome.measured / *outcome.predicted) : std::nullopt;
        table.rows.push_back({std::string(map.name), std::string(projection.name),
                              std::string(Name(map.kernel)), Cell(outcome.kernel, "{:.4f}"),
                              fmt::format("{:.4f}", outcome.estimate.mean), Cell(z, "{:.1f}"),
                              Cell(outcome.predicted, "{:.4f}"),
                              fmt::format("{:.4f}", outcome.measured), Cell(ratio, "{:.3f}")});
        run_.results["estimators"].push_back(
            {{"map", map.name},
             {"projection", projection.name},
             {"kernel", outcome.kernel ? Json(*outcome.kernel) : Json()},
             {"mean", outcome.estimate.mean},
             {"standard_error", outcome.estimate.standard_error},
             {"predicted_error", outcome.predicted ? Json(*outcome.predicted) : Json()},
             {"measured_error", outcome.measured}});
        Step(fmt::format("{} × {}", map.name, projection.name));
      }
    }
    run_.report.AddTable(table);
  }

  // `point` gives the number of features and the norm of x and y for a position on the horizontal
  // axis.
  template <class Point>
  void Sweep(const std::string& title, const std::string& caption, const std::string& label,
             const std::vector<double>& positions, bool log_x, const Point& point) {
    for (const char* projection : {"gaussian", "orthogonal"}) {
      reports::Plot plot{.title = title + ", " + projection + " ω",
                         .caption = caption,
                         .x_label = label,
                         .y_label = "error of φ(x)·φ(y) / K",
                         .log_x = log_x,
                         .log_y = true,
                         .series = {}};
      int color = 0;
      for (const char* map : kSoftmaxMaps) {
        reports::Series predicted{.name = map, .points = {}, .color = color},
            measured{.name = map, .points = {}, .color = color, .markers = true};
        for (const double position : positions) {
          const auto [features, norm] = point(position);
          const auto [x, y] = GenericPair(kDim, norm, kAngle, run_.context.seed());
          const Outcome outcome = Measure({OptionsFor(map, projection, features, x, y), x, y},
                                          run_.draws, run_.context);
          if (outcome.predicted) predicted.points.emplace_back(position, *outcome.predicted);
          measured.points.emplace_back(position, outcome.measured);
          Step(map);
        }
        plot.series.push_back(std::move(predicted));
        plot.series.push_back(std::move(measured));
        ++color;
      }
      run_.report.AddPlot(plot);
    }
  }

  void Step(const std::string& note) { progress_.Update(++done_, note); }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment EstimatorsExperiment() {
  return {.name = "estimators",
          .summary = "bias and variance of every feature map, measured against the formulas",
          .default_draws = 4000,
          .run = [](ExperimentRun& run) { EstimatorStudy(run).Run(); }};
}

}  // namespace favor::experiments
