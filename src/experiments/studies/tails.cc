// How often an estimate is far too large, next to Chernoff's bound and to what the paper says of
// orthogonal rows (Performers, Theorems 3 and 5).
#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/tail_bound.h"

namespace favor::experiments {
namespace {

struct Case {
  const char* map;  // positive: terms Λ exp(ω·z); hyperbolic: Λ cosh(ω·z)
  int64_t dim, features;
  double norm, sum;  // ‖x‖ = ‖y‖ and ‖x + y‖
};
constexpr Case kCases[] = {{"positive", 1, 1, 0.5, 1},   {"positive", 4, 4, 0.7, 1},
                           {"positive", 8, 8, 0.7, 1},   {"positive", 16, 8, 1, 1.5},
                           {"hyperbolic", 4, 4, 0.7, 1}, {"hyperbolic", 8, 8, 0.7, 1}};
constexpr double kLevels[] = {1.1, 1.3, 1.5, 1.7, 2};  // a as multiples of the mean
constexpr double kSharp = 0.01;     // relative error with which a tail that equals its bound passes
constexpr double kFewestHits = 50;  // a bound is compared if so many draws may exceed it
constexpr double kNearLargest = 1 - 1e-6;  // of a single term in one dimension

VectorPair PairOf(const Case& one, uint64_t seed) {
  if (one.dim == 1) return {.x = {one.norm}, .y = {one.sum - one.norm}};
  const double cosine = one.sum * one.sum / (2 * one.norm * one.norm) - 1;
  return GenericPair(one.dim, one.norm, std::acos(cosine), seed);
}

class TailStudy {
 public:
  explicit TailStudy(ExperimentRun& run)
      : run_(run), progress_("tails", 2 * std::ssize(kCases), run.quiet) {}

  void Run() {
    run_.report.AddText(
        "With rows of ω of length √d every term X of an estimate is bounded, and the chance that "
        "the mean of m independent terms exceeds a is at most exp(−m L(a)), where L is the "
        "Legendre transform of log E exp(θX), computed numerically. Rows of Gaussian length have "
        "no such bound: E exp(θX) is infinite. For orthogonal rows the paper multiplies the bound "
        "by d/(d + 2). That is too small: exp(θ(X₁ + … + X_m)) has terms in which at most one row "
        "takes part, and orthogonality does not change these; ρ is their share, and the factor is "
        "d/(d + 2) + 2ρ/(d + 2).");
    for (const Case& one : kCases) Measure(one);
    run_.report.AddTable(table_);
    run_.claims.push_back({.source = "Theorem 3, independent rows",
                           .statement = "P[estimate > a] ≤ exp(−m L(a))",
                           .measured = NearestToBound(independent_, Bound::kMost),
                           .verdict = AllAtMost(independent_, kSharp)});
    run_.claims.push_back(
        {.source = "Theorems 3 and 5, as printed (ICLR 2021)",
         .statement = "P[estimate > a] ≤ d/(d + 2)·exp(−m L(a)) for orthogonal rows",
         .measured = NearestToBound(printed_, Bound::kMost),
         .verdict = AllAtMost(printed_)});
    run_.claims.push_back(
        {.source = "Theorems 3 and 5, corrected",
         .statement = "P[estimate > a] ≤ (d/(d + 2) + 2ρ/(d + 2))·exp(−m L(a)) for orthogonal rows",
         .measured = NearestToBound(corrected_, Bound::kMost),
         .verdict = AllAtMost(corrected_, kSharp)});
    run_.claims.push_back({.source = "a reading of Theorem 3",
                           .statement = "orthogonal rows make every tail smaller",
                           .measured = raised_,
                           .verdict = AllAtMost(smaller_)});
  }

 private:
  void Measure(const Case& one) {
    const VectorPair pair = PairOf(one, run_.context.seed());
    const auto draw = [&](const char* projection) {
      FeatureOptions options = OptionsFor(one.map, projection, one.features, pair);
      options.omega_norm = OmegaNorm::kSqrtD;
      std::vector<double> drawn =
          DrawEstimates(options, pair, {.count = run_.draws, .figure = ++figure_}, run_.context);
      progress_.Update(++done_, one.map);
      return drawn;
    };
    const std::vector<double> independent = draw("gaussian"), orthogonal = draw("orthogonal");
    FeatureOptions options = OptionsFor(one.map, "gaussian", one.features, pair);
    options.omega_norm = OmegaNorm::kSqrtD;
    const double mean = FeaturePlan::Draw(options, 1, one.dim, 0).Kernel(pair.x, pair.y).value();
    double squares = 0;
    for (size_t i = 0; i < pair.x.size(); ++i)
      squares += pair.x[i] * pair.x[i] + pair.y[i] * pair.y[i];
    const double at_zero = std::exp(-squares / 2),
                 reach = std::sqrt(static_cast<double>(one.dim)) * one.sum;
    const bool exponential = std::string_view(one.map) == "positive";
    const auto term = [&](double u) {
      return at_zero * (exponential ? std::exp(reach * u) : std::cosh(reach * u));
    };
    reports::Plot plot{
        .title = fmt::format("Tails, {}, d = {}, m = {}", one.map, one.dim, one.features),
        .caption =
            "Lines: bounds; points: measured, blue with independent rows, green with "
            "orthogonal ones.",
        .x_label = "a / mean",
        .y_label = "P[estimate > a]",
        .log_y = true,
        .series = {{.name = "independent", .points = {}, .color = 0, .markers = true},
                   {.name = "bound, independent", .points = {}, .color = 0},
                   {.name = "orthogonal", .points = {}, .color = 2, .markers = true},
                   {.name = "printed, orthogonal", .points = {}, .color = 3},
                   {.name = "corrected, orthogonal", .points = {}, .color = 2}}};
    // In one dimension a term takes two values, and just below the larger one the bound is sharp.
    std::vector<double> levels;
    if (one.dim == 1)
      levels = {kNearLargest * term(1)};
    else
      for (const double multiple : kLevels) levels.push_back(multiple * mean);
    for (const double level : levels) {
      const LegendreTransform transform = TransformOf(one.dim, term, level);
      const double bound = ChernoffBound(transform, one.features),
                   printed =
                       bound * static_cast<double>(one.dim) / (static_cast<double>(one.dim) + 2),
                   corrected = bound * OrthogonalShare(transform, one.dim, one.features, at_zero);
      const Measured alone = ShareAbove(independent, level),
                     together = ShareAbove(orthogonal, level);
      if (bound * static_cast<double>(run_.draws) >= kFewestHits) {
        independent_.push_back({alone, bound});
        printed_.push_back({together, printed});
        corrected_.push_back({together, corrected});
        // A single row is not orthogonal to anything.
        if (one.features > 1) {
          smaller_.push_back({Difference(together, alone), 0});
          Note(one, level / mean, together, alone);
        }
      }
      table_.rows.push_back({one.map, std::to_string(one.dim), std::to_string(one.features),
                             fmt::format("{:.2f}", level / mean), alone.ToText(),
                             fmt::format("{:.5f}", bound), together.ToText(),
                             fmt::format("{:.5f}", printed), fmt::format("{:.5f}", corrected)});
      run_.results["tails"].push_back({{"map", one.map},
                                       {"dim", one.dim},
                                       {"features", one.features},
                                       {"multiple", level / mean},
                                       {"independent", alone.value},
                                       {"bound", bound},
                                       {"orthogonal", together.value},
                                       {"printed", printed},
                                       {"corrected", corrected}});
      const double figures[] = {alone.value, bound, together.value, printed, corrected};
      for (size_t i = 0; i < plot.series.size(); ++i)
        if (figures[i] > 0) plot.series[i].points.emplace_back(level / mean, figures[i]);
    }
    if (levels.size() > 1) run_.report.AddPlot(plot);
  }

  // Keeps the tail that orthogonal rows raise most clearly.
  void Note(const Case& one, double multiple, const Measured& orthogonal,
            const Measured& independent) {
    const double raise = Comparison{Difference(orthogonal, independent), 0}.Z();
    if (smaller_.size() > 1 && raise <= raised_z_) return;
    raised_ = fmt::format(
        "d = {}, m = {}, a = {:.2f} F: {} with orthogonal rows, {} with "
        "independent ones",
        one.dim, one.features, multiple, orthogonal.ToText(), independent.ToText());
    raised_z_ = raise;
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
  uint64_t figure_ = 0;
  reports::Table table_{
      .title = "Tails of estimates",
      .caption =
          "Rows of ω of length √d; a is a multiple of the mean F. Bounds are Chernoff's for "
          "independent rows, that times d/(d + 2) as printed, and the corrected one. Tails are "
          "compared with bounds that 50 of the draws may exceed.",
      .columns = {"map", "d", "m", "a / F", "independent", "bound", "orthogonal", "printed",
                  "corrected"},
      .rows = {}};
  std::vector<Comparison> independent_, printed_, corrected_, smaller_;
  std::string raised_ = "no figure is certain enough";
  double raised_z_ = 0;
};

}  // namespace

Experiment TailsExperiment() {
  return {.name = "tails",
          .summary = "how often an estimate is far too large, next to the bounds on it",
          .subject = "Theorems 3 and 5",
          .draws = {.quick = 2000, .full = 400'000, .paper = 4'000'000},
          .seconds = {.quick = 1, .full = 20, .paper = 200},
          .run = [](ExperimentRun& run) { TailStudy(run).Run(); }};
}

}  // namespace favor::experiments
