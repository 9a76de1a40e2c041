// Every map and projection on one pair of vectors: is the estimate unbiased, and is its error what
// the formulas predict? Then the errors of the softmax estimators over the angle and the length of
// the vectors, and over the number of features (Performers, Lemma 2, Figure 2).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

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
constexpr double kPi = std::numbers::pi;
constexpr const char* kSoftmaxMaps[] = {"positive", "hyperbolic", "trigonometric", "oprf",
                                        "regularized"};
// Lemma 2: independent rows of ω.
constexpr const char* kLemmaMaps[] = {"trigonometric", "positive", "hyperbolic"};
constexpr double kLengths[] = {0.25, 0.5, 0.75, 1};
constexpr double kTurns[] = {0.1, 0.3, 0.5, 0.7, 0.9};  // angles, as shares of π
constexpr double kLongLengths[] = {1, 1.5, 2, 2.5};     // of nearly opposite vectors
constexpr double kSums[] = {0.25, 0.5, 0.75, 1, 1.25};  // ‖x + y‖
constexpr double kSweepFeatures[] = {4, 8, 16, 32, 64, 128, 256};
constexpr double kSweepSums[] = {0.25, 0.5, 1, 1.5, 2, 2.5, 3};
constexpr double kMeanPrecision = 0.01;  // the same of a mean

// Row maps draw no ω; local ones have an experiment of their own.
bool IsMeasured(const FeatureMapInfo& map) {
  return map.has_omega && map.kernel != KernelFamily::kLocal;
}
constexpr double kPrecision =
    0.05;  // relative standard error from which a variance tells something

std::string Cell(std::optional<double> value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "—";
}

// The mean squared error that Lemma 2 predicts.
double Predicted(const FeatureOptions& options, const VectorPair& pair) {
  const auto plan = FeaturePlan::Draw(options, 1, static_cast<int64_t>(pair.x.size()), 0);
  return plan.ExpectedMse(pair.x, pair.y).value();
}

// Pairs whose sum has the given norm.
VectorPair PairWithSum(double sum, uint64_t seed) {
  return GenericPair(kDim, sum / (2 * std::cos(kAngle / 2)), kAngle, seed);
}

class EstimatorStudy {
 public:
  explicit EstimatorStudy(ExperimentRun& run)
      : run_(run), progress_("estimators", Steps(), run.quiet) {}

  void Run() {
    run_.report.AddText(fmt::format(
        "A feature map turns a kernel into a dot product of random features: the mean of φ(x)·φ(y) "
        "over draws of ω is K(x, y). Here the mean and the spread of {} draws stand next to what "
        "the formulas predict (docs/mathematics.md). Figures come with their standard errors.",
        run_.draws));
    DrawErrorMap();
    MeasureErrorMap();
    MeasureVanishingKernel();
    CompareHyperbolic();
    CompareAll();
    Sweep("Error against the number of features",
          "Lines: predicted; points: measured. Every estimator falls like 1/√m; orthogonal rows "
          "lower the level.",
          "features m", kSweepFeatures, true,
          [](double m) { return std::pair(static_cast<int64_t>(m), kNorm); });
    Sweep("Error against the size of x + y",
          "Lines: predicted; points: measured, m = 32. Positive features grow like exp(|x+y|²/2) "
          "and oprf far more slowly; the trigonometric ones are best only while the vectors are "
          "short. Points fall below their line where no number of draws in reach shows the "
          "variance of a lognormal law.",
          "|x + y|", kSweepSums, false,
          [](double sum) { return std::pair(kFeatures, sum / (2 * std::cos(kAngle / 2))); });
  }

 private:
  static int64_t Steps() {
    int64_t random = 0;
    for (const features::ProjectionEntry& projection : features::AllProjections())
      random += projection.random ? 1 : 0;
    const auto count = [](const auto& list) { return std::ssize(list); };
    return count(kLengths) * count(kTurns) * count(kLemmaMaps) + 2 * count(kLongLengths) +
           2 * count(kSums) + std::ranges::count_if(Maps(), IsMeasured) * random +
           2 * (count(kSweepFeatures) + count(kSweepSums)) * count(kSoftmaxMaps);
  }

  Estimate Measure(const FeatureOptions& options, const VectorPair& pair) {
    return MeasureEstimator(options, pair, {.count = run_.draws, .figure = ++figure_},
                            run_.context);
  }

  // Figure 2 of the paper, from the formulas.
  void DrawErrorMap() {
    constexpr int kColumns = 41, kRows = 30;
    reports::Surface surface{
        .title = "Errors of trigonometric and positive features",
        .caption =
            "The logarithm to base 10 of MSE(trigonometric)/MSE(positive), by Lemma 2, for "
            "|x| = |y| and independent rows. Red: positive features are better. It depends "
            "neither on d nor on m.",
        .x_label = "angle between x and y / π",
        .y_label = "length |x| = |y|",
        .value_label = "log10 of the ratio of errors",
        .xs = {},
        .ys = {},
        .values = {}};
    for (int column = 1; column < kColumns; ++column)
      surface.xs.push_back(static_cast<double>(column) / kColumns);
    for (int row = 1; row <= kRows; ++row) {
      surface.ys.push_back(0.1 * row);
      std::vector<double>& values = surface.values.emplace_back();
      for (const double turn : surface.xs) {
        const VectorPair pair = GenericPair(kDim, surface.ys.back(), kPi * turn, 0);
        const double ratio = Predicted(OptionsFor("trigonometric", "gaussian", 1, pair), pair) /
                             Predicted(OptionsFor("positive", "gaussian", 1, pair), pair);
        values.push_back(std::log10(ratio));
      }
    }
    run_.report.AddSurface(surface);
  }

  // Errors of the maps, in their order, by length and angle; whether each can be measured.
  using Places = std::map<std::pair<double, double>, std::vector<std::pair<Comparison, bool>>>;

  // Lemma 2 at some points of that map. Where the law of the terms has so heavy tails that their
  // variance cannot be measured, there is only the prediction.
  void MeasureErrorMap() {
    reports::Table table{.title = "Lemma 2: mean squared errors",
                         .caption = fmt::format(
                             "d = {}, m = {} independent rows, |x| = |y|, {} draws. No z: the "
                             "terms have so heavy tails that {} draws do not show their variance, "
                             "and the figure is not compared.",
                             kDim, kFeatures, run_.draws, run_.draws),
                         .columns = {"map", "length", "angle / π", "predicted", "measured", "z"},
                         .rows = {}};
    reports::Plot plot{
        .title = "Errors by Lemma 2",
        .caption = "Lines: predicted; points: measured, where their variance can be.",
        .x_label = "length |x| = |y|",
        .y_label = "mean squared error",
        .log_y = true,
        .series = {}};
    int color = 0;
    Places errors;
    for (const char* map : kLemmaMaps) {
      std::vector<Comparison> comparisons;
      for (const double turn : kTurns) {
        reports::Series line{.name = fmt::format("{}, {} π", map, turn), .color = color},
            points{.name = "", .color = color, .markers = true};
        for (const double length : kLengths) {
          const VectorPair pair = GenericPair(kDim, length, kPi * turn, run_.context.seed());
          const FeatureOptions options = OptionsFor(map, "gaussian", kFeatures, pair);
          const Comparison comparison{.measured = Measure(options, pair).variance,
                                      .expected = Predicted(options, pair)};
          const bool tells = map == kLemmaMaps[0] ||
                             ErrorOfVariance(pair.SumSquare(), kFeatures, run_.draws) <= kPrecision;
          if (tells) comparisons.push_back(comparison);
          table.rows.push_back({map, fmt::format("{}", length), fmt::format("{}", turn),
                                fmt::format("{:.4g}", comparison.expected),
                                comparison.measured.ToText(),
                                tells ? fmt::format("{:+.1f}", comparison.Z()) : "—"});
          run_.results["lemma_2"].push_back({{"map", map},
                                             {"length", length},
                                             {"angle", kPi * turn},
                                             {"predicted", comparison.expected},
                                             {"measured", comparison.measured.value},
                                             {"standard_error", comparison.measured.standard_error},
                                             {"compared", tells}});
          errors[{length, turn}].push_back({comparison, tells});
          line.points.emplace_back(length, comparison.expected);
          if (tells) points.points.emplace_back(length, comparison.measured.value);
          Step(map);
        }
        if (turn == kTurns[0] || turn == kTurns[4]) {
          plot.series.push_back(std::move(line));
          plot.series.push_back(std::move(points));
          ++color;
        }
      }
      run_.claims.push_back(
          {.source = fmt::format("Lemma 2, {}", map),
           .statement = map == kLemmaMaps[0] ? "MSE = exp(|x|² + |y|²)(1 − exp(−|x − y|²))²/(2m)"
                        : map == kLemmaMaps[1]
                            ? "MSE = SM²(exp(|x + y|²) − 1)/m"
                            : "MSE = (1 − exp(−|x + y|²))/2 of that of positive features",
           .measured = LargestZ(comparisons),
           .verdict = AllEqual(comparisons, kPrecision)});
    }
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
    AddRatios(errors);
  }

  // The map of errors again, at the points that were measured.
  void AddRatios(const Places& errors) {
    reports::Table table{.title = "MSE of trigonometric over MSE of positive features",
                         .caption =
                             "Predicted → measured, by length (rows) and angle; — : the "
                             "variance of positive features cannot be measured there.",
                         .columns = {"length"},
                         .rows = {}};
    for (const double turn : kTurns) table.columns.push_back(fmt::format("{} π", turn));
    for (const double length : kLengths) {
      table.rows.push_back({fmt::format("{}", length)});
      for (const double turn : kTurns) {
        const auto& at = errors.at({length, turn});
        const Comparison &trigonometric = at[0].first, &positive = at[1].first;
        table.rows.back().push_back(fmt::format(
            "{:.3g} → {}", trigonometric.expected / positive.expected,
            at[1].second ? Quotient(trigonometric.measured, positive.measured).ToText() : "—"));
      }
    }
    run_.report.AddTable(table);
  }

  // Nearly opposite vectors of growing length: the kernel goes to 0.
  void MeasureVanishingKernel() {
    reports::Table table{.title = "When the kernel goes to 0",
                         .caption = fmt::format("d = {}, m = {} independent rows, angle {} π.",
                                                kDim, kFeatures, kTurns[4]),
                         .columns = {"length", "kernel", "MSE positive", "MSE trigonometric"},
                         .rows = {}};
    std::vector<Comparison> falls, grows;
    std::optional<Measured> positive_before, trigonometric_before;
    for (const double length : kLongLengths) {
      const VectorPair pair = GenericPair(kDim, length, kPi * kTurns[4], run_.context.seed());
      const auto measure = [&](const char* map) {
        Step(map);
        return Measure(OptionsFor(map, "gaussian", kFeatures, pair), pair).variance;
      };
      const Measured positive = measure("positive"), trigonometric = measure("trigonometric");
      if (positive_before) falls.push_back({Quotient(positive, *positive_before), 1});
      if (trigonometric_before)
        grows.push_back({Quotient(trigonometric, *trigonometric_before), 1});
      positive_before = positive;
      trigonometric_before = trigonometric;
      table.rows.push_back({fmt::format("{}", length), fmt::format("{:.4g}", std::exp(pair.Dot())),
                            positive.ToText(), trigonometric.ToText()});
      run_.results["vanishing_kernel"].push_back(
          {{"length", length},
           {"kernel", std::exp(pair.Dot())},
           {"positive", positive.value},
           {"positive_error", positive.standard_error},
           {"trigonometric", trigonometric.value},
           {"trigonometric_error", trigonometric.standard_error}});
    }
    run_.report.AddTable(table);
    run_.claims.push_back(
        {.source = "after Lemma 2",
         .statement = "as the kernel goes to 0, the error of positive features goes to 0",
         .measured = fmt::format("MSE {} at kernel {}", table.rows.back()[2], table.rows.back()[1]),
         .verdict = AllAtMost(falls)});
    run_.claims.push_back(
        {.source = "after Lemma 2",
         .statement = "as the kernel goes to 0, the error of trigonometric features grows",
         .measured = fmt::format("MSE {} at kernel {}", table.rows.back()[3], table.rows.back()[1]),
         .verdict = AllAtLeast(grows)});
  }

  // hyperbolic has two columns for each row of ω.
  void CompareHyperbolic() {
    reports::Table table{
        .title = "Hyperbolic and positive features, equally many",
        .caption = fmt::format("d = {}, {} columns of φ each: {} rows of ω for positive, {} for "
                               "hyperbolic, independent. No z: the variance cannot be measured.",
                               kDim, kFeatures, kFeatures, kFeatures / 2),
        .columns = {"|x + y|", "predicted ratio of MSEs", "measured", "z"},
        .rows = {}};
    std::vector<Comparison> comparisons;
    for (const double sum : kSums) {
      const VectorPair pair = PairWithSum(sum, run_.context.seed());
      const FeatureOptions hyperbolic = OptionsFor("hyperbolic", "gaussian", kFeatures / 2, pair),
                           positive = OptionsFor("positive", "gaussian", kFeatures, pair);
      const Comparison comparison{
          .measured =
              Quotient(Measure(hyperbolic, pair).variance, Measure(positive, pair).variance),
          .expected = Predicted(hyperbolic, pair) / Predicted(positive, pair)};
      const bool tells = ErrorOfVariance(pair.SumSquare(), kFeatures / 2, run_.draws) <= kPrecision;
      if (tells) comparisons.push_back(comparison);
      table.rows.push_back({fmt::format("{}", sum), fmt::format("{:.4f}", comparison.expected),
                            comparison.measured.ToText(),
                            tells ? fmt::format("{:+.1f}", comparison.Z()) : "—"});
      run_.results["hyperbolic"].push_back({{"sum", sum},
                                            {"predicted", comparison.expected},
                                            {"measured", comparison.measured.value},
                                            {"standard_error", comparison.measured.standard_error},
                                            {"compared", tells}});
      Step("hyperbolic");
      Step("positive");
    }
    run_.report.AddTable(table);
    run_.claims.push_back(
        {.source = "Lemma 2, equally many features",
         .statement = "hyperbolic features are better by no more than 1 − exp(−|x + y|²)",
         .measured = LargestZ(comparisons),
         .verdict = AllEqual(comparisons, 2 * kPrecision)});
  }

  void CompareAll() {
    const VectorPair pair = GenericPair(kDim, kNorm, kAngle, run_.context.seed());
    reports::Table table{
        .title = "All maps and projections",
        .caption = fmt::format(
            "d = {}, m = {}, |x| = |y| = {}, angle {} rad, {} draws. |z| is the distance of the "
            "mean from K in standard errors; hadamard and givens may have a small bias (below 1 % "
            "and 2.5 % of K if d is a power of two). Errors are root mean squares as shares of K; "
            "— : no formula is known.",
            kDim, kFeatures, kNorm, kAngle, run_.draws),
        .columns = {"map", "projection", "kernel", "K", "mean", "|z|", "predicted", "measured",
                    "ratio"},
        .rows = {}};
    std::vector<Comparison> means;
    for (const FeatureMapInfo& map : Maps()) {
      if (!IsMeasured(map)) continue;
      for (const features::ProjectionEntry& entry : features::AllProjections()) {
        if (!entry.random) continue;
        const std::string_view projection = entry.info.name;
        const FeatureOptions options = OptionsFor(map.name, projection, kFeatures, pair);
        const auto plan = FeaturePlan::Draw(options, 1, kDim, run_.context.seed());
        const std::optional<double> kernel = plan.Kernel(pair.x, pair.y),
                                    mse = plan.ExpectedMse(pair.x, pair.y);
        const Estimate estimate = Measure(options, pair);
        const double scale = std::fabs(kernel.value_or(estimate.mean.value));
        const double measured = std::sqrt(estimate.variance.value) / scale;
        std::optional<double> z, predicted, ratio;
        if (kernel) {
          z = std::fabs(Comparison{estimate.mean, *kernel}.Z());
          if (projection == "gaussian" || projection == "orthogonal")
            means.push_back({estimate.mean, *kernel});
        }
        if (mse) {
          predicted = std::sqrt(*mse) / scale;
          ratio = measured / *predicted;
        }
        table.rows.push_back({std::string(map.name), std::string(projection),
                              std::string(Name(map.kernel)), Cell(kernel, "{:.4f}"),
                              estimate.mean.ToText(), Cell(z, "{:.1f}"), Cell(predicted, "{:.4f}"),
                              fmt::format("{:.4f}", measured), Cell(ratio, "{:.3f}")});
        run_.results["estimators"].push_back(
            {{"map", map.name},
             {"projection", projection},
             {"kernel", kernel ? Json(*kernel) : Json()},
             {"mean", estimate.mean.value},
             {"standard_error", estimate.mean.standard_error},
             {"predicted_error", predicted ? Json(*predicted) : Json()},
             {"measured_error", measured}});
        Step(fmt::format("{} × {}", map.name, projection));
      }
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "Lemma 1, and orthogonal rows",
                           .statement = "the estimate of every map is unbiased, with independent "
                                        "and with orthogonal rows",
                           .measured = LargestZ(means),
                           .verdict = AllEqual(means, kMeanPrecision)});
  }

  // `point` gives the number of features and the norm of x and y for a position on the horizontal
  // axis.
  template <class Point>
  void Sweep(const std::string& title, const std::string& caption, const std::string& label,
             std::span<const double> positions, bool log_x, const Point& point) {
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
          const VectorPair pair = GenericPair(kDim, norm, kAngle, run_.context.seed());
          const FeatureOptions options = OptionsFor(map, projection, features, pair);
          const auto plan = FeaturePlan::Draw(options, 1, kDim, run_.context.seed());
          const double scale = plan.Kernel(pair.x, pair.y).value();
          if (const auto mse = plan.ExpectedMse(pair.x, pair.y))
            predicted.points.emplace_back(position, std::sqrt(*mse) / scale);
          measured.points.emplace_back(position,
                                       std::sqrt(Measure(options, pair).variance.value) / scale);
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
  uint64_t figure_ = 0;
};

}  // namespace

Experiment EstimatorsExperiment() {
  return {.name = "estimators",
          .summary = "bias and error of every feature map, measured against the formulas",
          .subject = "Lemma 2, Figure 2",
          .draws = {.quick = 400, .full = 20'000, .paper = 200'000},
          .seconds = {.quick = 4, .full = 160, .paper = 1600},
          .run = [](ExperimentRun& run) { EstimatorStudy(run).Run(); }};
}

}  // namespace favor::experiments
