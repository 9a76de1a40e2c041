// What orthogonal rows of ω bring: variances against the exact formula, the gap to independent rows
// that the paper prints and the one that is true (Performers, Theorems 2 and 6), and the four ways
// to draw ω: bias, error and time.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "benchmarks/random_tensor.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"

namespace favor::experiments {
namespace {

struct Case {
  const char* map;
  int64_t dim, features;
  double norm;  // of x and y
};
// The terms of positive and regularized are exp(ω·z), those of hyperbolic cosh(ω·z): two functions
// whose power series has no negative coefficient.
constexpr Case kCases[] = {
    {"positive", 4, 4, 0.6},      {"positive", 8, 8, 0.6},     {"positive", 8, 20, 0.6},
    {"positive", 8, 8, 0.14},     {"positive", 16, 16, 0.6},   {"regularized", 4, 4, 0.6},
    {"regularized", 8, 8, 0.6},   {"regularized", 8, 20, 0.6}, {"regularized", 8, 8, 0.14},
    {"hyperbolic", 4, 4, 0.45},   {"hyperbolic", 8, 8, 0.45},  {"hyperbolic", 8, 20, 0.45},
    {"hyperbolic", 16, 16, 0.45},
};
constexpr double kAngle = 1.0;
constexpr double kPrecision = 0.05, kMeanPrecision = 0.005;
constexpr const char* kProjections[] = {"gaussian", "orthogonal", "hadamard", "givens"};
constexpr int64_t kProjectionDims[] = {16, 64};
constexpr double kProjectionNorm = 0.5;
constexpr double kStructuredBias = 0.025;
constexpr int64_t kTimedRows = 4096;

class OrthogonalityStudy {
 public:
  explicit OrthogonalityStudy(ExperimentRun& run)
      : run_(run),
        progress_(
            "orthogonality",
            2 * std::ssize(kCases) + 2 * std::ssize(kProjectionDims) * std::ssize(kProjections),
            run.quiet) {}

  void Run() {
    run_.report.AddText(
        "Rows of ω that are orthogonal to each other keep the estimate unbiased and lower its "
        "variance: Var = (E X² − F²)/m + P (E X₁X₂ − F²)/m², where P counts ordered pairs of rows "
        "in one block of d, F is the kernel and X one term of the estimate. The gap is the "
        "difference to independent rows. Λ = exp(−(|x|² + |y|²)/2) is the value of a term at ω = "
        "0.");
    MeasureGaps();
    DrawGaps();
    CompareProjections();
  }

 private:
  Estimate Measure(const FeatureOptions& options, const VectorPair& pair) {
    return MeasureEstimator(options, pair, {.count = run_.draws, .figure = ++figure_},
                            run_.context);
  }

  void MeasureGaps() {
    reports::Table table{
        .title = "Variance with independent and with orthogonal rows",
        .caption = fmt::format("|x| = |y|, angle {} rad, {} draws. Gaps are given for m ≤ d, the "
                               "case of the theorems: the exact one, the printed lower bound (1 − "
                               "1/m)·2/(d + 2)·F², and the corrected one with (F − Λ)².",
                               kAngle, run_.draws),
        .columns = {"map", "d", "m", "norm", "exact, indep.", "measured", "exact, orth.",
                    "measured", "exact gap", "printed", "corrected"},
        .rows = {}};
    std::vector<Comparison> variances, printed_gaps, corrected_gaps, others;
    std::string worst;
    for (const Case& one : kCases) {
      const VectorPair pair = GenericPair(one.dim, one.norm, kAngle, run_.context.seed());
      const auto measure = [&](const char* projection) {
        const FeatureOptions options = OptionsFor(one.map, projection, one.features, pair);
        const auto plan = FeaturePlan::Draw(options, 1, one.dim, 0);
        variances.push_back({.measured = Measure(options, pair).variance,
                             .expected = plan.ExpectedMse(pair.x, pair.y).value()});
        progress_.Update(++done_, one.map);
        return variances.back();
      };
      const Comparison independent = measure("gaussian"), orthogonal = measure("orthogonal");
      std::vector<std::string>& cells = table.rows.emplace_back(
          std::vector<std::string>{one.map, std::to_string(one.dim), std::to_string(one.features),
                                   fmt::format("{}", one.norm)});
      for (const Comparison& comparison : {independent, orthogonal}) {
        cells.push_back(fmt::format("{:.5g}", comparison.expected));
        cells.push_back(comparison.measured.ToText());
      }
      Json& row = run_.results["variances"].emplace_back(
          Json{{"map", one.map},
               {"dim", one.dim},
               {"features", one.features},
               {"norm", one.norm},
               {"independent", independent.expected},
               {"independent_measured", independent.measured.value},
               {"independent_error", independent.measured.standard_error},
               {"orthogonal", orthogonal.expected},
               {"orthogonal_measured", orthogonal.measured.value},
               {"orthogonal_error", orthogonal.measured.standard_error}});
      if (one.features > one.dim) {
        cells.insert(cells.end(), 3, "—");
        continue;
      }
      const double kernel =
          FeaturePlan::Draw(OptionsFor(one.map, "gaussian", one.features, pair), 1, one.dim, 0)
              .Kernel(pair.x, pair.y)
              .value();
      const double at_zero = std::exp(-one.norm * one.norm);
      const double share =
          (1 - 1 / static_cast<double>(one.features)) * 2 / (static_cast<double>(one.dim) + 2);
      const double gap = independent.expected - orthogonal.expected,
                   printed = share * kernel * kernel,
                   corrected = share * (kernel - at_zero) * (kernel - at_zero);
      for (const double figure : {gap, printed, corrected})
        cells.push_back(fmt::format("{:.3g}", figure));
      row["gap"] = gap;
      row["printed_gap"] = printed;
      row["corrected_gap"] = corrected;
      (std::string_view(one.map) == "hyperbolic" ? others : printed_gaps)
          .push_back({.measured = {gap}, .expected = printed});
      corrected_gaps.push_back({.measured = {gap}, .expected = corrected});
      if (one.norm < 0.5 && worst.empty())
        worst = fmt::format(
            "d = m = {}, norm {}: gap {:.3g}, printed {:.3g}, all of the error of "
            "independent rows {:.3g}",
            one.dim, one.norm, gap, printed, independent.expected);
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "the exact variance",
                           .statement = "Var = (E X² − F²)/m + P (E X₁X₂ − F²)/m², also for m > d",
                           .measured = LargestZ(variances),
                           .verdict = AllEqual(variances, kPrecision)});
    run_.claims.push_back({.source = "Theorem 2, as printed (ICLR 2021)",
                           .statement = "orthogonal rows lower the MSE by at least (1 − "
                                        "1/m)·2/(d + 2)·SM²",
                           .measured = worst,
                           .verdict = AllAtLeast(printed_gaps)});
    run_.claims.push_back({.source = "Theorem 6, as printed (ICLR 2021), for cosh",
                           .statement = "the same bound for every function without negative "
                                        "coefficients",
                           .measured = NearestToBound(others, Bound::kLeast),
                           .verdict = AllAtLeast(others)});
    run_.claims.push_back({.source = "Theorems 2 and 6, corrected",
                           .statement = "the gap is at least (1 − 1/m)·2/(d + 2)·(F − Λ)²",
                           .measured = NearestToBound(corrected_gaps, Bound::kLeast),
                           .verdict = AllAtLeast(corrected_gaps)});
  }

  // What orthogonality leaves of the variance, by the formula.
  void DrawGaps() {
    constexpr int64_t kPlotDim = 16;
    reports::Plot plot{
        .title = "Variance with orthogonal rows over variance with independent ones",
        .caption = fmt::format("Exact, d = m = {}, |x| = |y|, angle {} rad.", kPlotDim, kAngle),
        .x_label = "|x + y|",
        .y_label = "ratio of variances",
        .from_zero = true,
        .series = {}};
    int color = 0;
    for (const char* map : {"positive", "regularized", "hyperbolic"}) {
      reports::Series series{.name = map, .points = {}, .color = color++};
      for (int i = 1; i <= 24; ++i) {
        const VectorPair pair = GenericPair(kPlotDim, 0.05 * i, kAngle, 0);
        const auto variance = [&](const char* projection) {
          return FeaturePlan::Draw(OptionsFor(map, projection, kPlotDim, pair), 1, kPlotDim, 0)
              .ExpectedMse(pair.x, pair.y)
              .value();
        };
        series.points.emplace_back(std::sqrt(pair.SumSquare()),
                                   variance("orthogonal") / variance("gaussian"));
      }
      plot.series.push_back(std::move(series));
    }
    run_.report.AddPlot(plot);
  }

  void CompareProjections() {
    reports::Table table{
        .title = "Ways to draw ω",
        .caption = fmt::format(
            "positive features, m = d, |x| = |y| = {}, {} draws. Mean and variance are shares of K "
            "and of the variance of independent rows; an axis pair has x = y along one coordinate, "
            "the worst case of structured rows. Times: drawing ω, and features of {} rows, {} "
            "threads.",
            kProjectionNorm, run_.draws, kTimedRows, run_.context.threads()),
        .columns = {"d", "projection", "mean", "mean, axis", "variance", "variance, axis",
                    "draw µs", "features ms"},
        .rows = {}};
    std::vector<Comparison> unbiased, nearly, lower;
    for (const int64_t dim : kProjectionDims) {
      const auto seed = run_.context.seed();
      const VectorPair generic = GenericPair(dim, kProjectionNorm, kAngle, seed);
      std::vector<double> along(static_cast<size_t>(dim));
      along[0] = kProjectionNorm;
      const VectorPair axis{.x = along, .y = along};
      const Tensor rows = benchmarks::RandomNormal({kTimedRows, dim}, 0.5, seed, "rows");
      std::vector<Measured> base;  // variances of independent rows, generic and axis
      for (const char* projection : kProjections) {
        const FeatureOptions options = OptionsFor("positive", projection, dim, generic);
        std::vector<std::string> means, variances;
        Json row = {{"dim", dim}, {"projection", projection}};
        for (const VectorPair* pair : {&generic, &axis}) {
          const double kernel = std::exp(pair->Dot());
          const Estimate estimate = Measure(options, *pair);
          const Measured mean = Quotient(estimate.mean, {kernel});
          means.push_back(mean.ToText());
          if (means.size() > base.size()) base.push_back(estimate.variance);
          const Measured variance = Quotient(estimate.variance, base[means.size() - 1]);
          variances.push_back(std::string_view(projection) == "gaussian" ? "1" : variance.ToText());
          const bool haar = std::string_view(projection) == "gaussian" ||
                            std::string_view(projection) == "orthogonal";
          if (haar)
            unbiased.push_back({mean, 1});
          else
            nearly.push_back(
                {{std::fabs(mean.value - 1), mean.standard_error, mean.freedom}, kStructuredBias});
          if (std::string_view(projection) != "gaussian") lower.push_back({variance, 1});
          row[pair == &axis ? "axis" : "generic"] = {{"mean", mean.value},
                                                     {"mean_error", mean.standard_error},
                                                     {"variance", variance.value},
                                                     {"variance_error", variance.standard_error}};
          progress_.Update(++done_, projection);
        }
        const double drawing = LeastSeconds(5, [&] { FeaturePlan::Draw(options, 1, dim, seed); });
        const auto plan = FeaturePlan::Draw(options, 1, dim, seed);
        Tensor exponents({kTimedRows, plan.width()}), factors({kTimedRows, plan.width()});
        const double applying = LeastSeconds(
            5, [&] { FeatureExponents(plan, rows, run_.context, exponents, factors); });
        table.rows.push_back({std::to_string(dim), projection, means[0], means[1], variances[0],
                              variances[1], fmt::format("{:.1f}", 1e6 * drawing),
                              fmt::format("{:.3f}", 1e3 * applying)});
        row["draw_seconds"] = drawing;
        row["features_seconds"] = applying;
        run_.results["projections"].push_back(row);
      }
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "orthogonal features",
                           .statement = "orthogonal rows keep the estimate unbiased",
                           .measured = LargestZ(unbiased),
                           .verdict = AllEqual(unbiased, kMeanPrecision)});
    run_.claims.push_back(
        {.source = "structured features",
         .statement = fmt::format("Hadamard and Givens rows, after a random rotation, have a small "
                                  "bias (here: at most {:.1f} % of K)",
                                  100 * kStructuredBias),
         .measured = NearestToBound(nearly, Bound::kMost),
         .verdict = AllAtMost(nearly)});
    run_.claims.push_back({.source = "orthogonal features",
                           .statement = "orthogonal, Hadamard and Givens rows have a smaller "
                                        "variance than independent ones",
                           .measured = NearestToBound(lower, Bound::kMost),
                           .verdict = AllAtMost(lower)});
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
  uint64_t figure_ = 0;
};

}  // namespace

Experiment OrthogonalityExperiment() {
  return {.name = "orthogonality",
          .summary = "how much orthogonal rows lower the error, and what each way to draw ω costs",
          .subject = "Theorems 2 and 6",
          .draws = {.quick = 400, .full = 100'000, .paper = 1'000'000},
          .seconds = {.quick = 1, .full = 150, .paper = 1500},
          .run = [](ExperimentRun& run) { OrthogonalityStudy(run).Run(); }};
}

}  // namespace favor::experiments
