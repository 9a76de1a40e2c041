// Feed-forward layers as products of features: the error of hidden units against the number of
// columns, next to a straight line and to exact squares, and whether columns divided for a target
// error reach it. (Notes on custom kernels, the linearised feed-forward layer.)
#include "favor/linearised.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/published_columns.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }
double Tanh(double t) { return std::tanh(t); }
double Sigmoid(double t) { return 1 / (1 + std::exp(-t)); }
double Relu(double t) { return std::max(t, 0.0); }

struct Activated {
  const char* name;
  double (*function)(double);
};
constexpr Activated kActivated[] = {
    {"gelu", Gelu}, {"tanh", Tanh}, {"sigmoid", Sigmoid}, {"relu", Relu}};
constexpr int64_t kDims[] = {16, 64};
constexpr double kReaches[] = {1, 2, 4, 8, 16};  // R = ‖w‖‖x‖
constexpr int64_t kWidths[] = {256, 1024, 4096};
constexpr int kMostDegree = 6;
constexpr double kPrecision = 0.1;
// Where formulas are compared with drawn sketches.
struct Measurement {
  int64_t dim;
  double reach;
  int degree;
  int64_t columns;
};
constexpr Measurement kMeasured[] = {
    {16, 2, 2, 64}, {16, 4, 2, 240}, {16, 4, 4, 240}, {64, 4, 2, 192}, {64, 8, 3, 192}};
constexpr double kGeluCurve = 0.7978845608028654;  // sup|GELU''| = 2/√(2π)
struct Target {
  double reach, error;
};
constexpr Target kTargets[] = {{1, 0.1}, {1, 0.02}, {2, 0.1}};
constexpr int64_t kUnits = 8;

double Total(const Linearisation& plan) { return plan.errors.bias + plan.errors.variance; }

// The best division of `width` columns, x itself among them, over degrees from `least` on.
Linearisation BestOf(const Function& function, const UnitInputs& inputs, int64_t width, int least,
                     int most) {
  std::optional<Linearisation> best;
  for (int degree = least; degree <= most; ++degree) {
    Linearisation plan = LineariseForColumns(
        function, inputs, {.degree = degree, .columns = degree == 1 ? 0 : width - inputs.dim - 1});
    if (!best || Total(plan) < Total(*best)) best = std::move(plan);
  }
  return *best;
}

double VarianceOf(const Function& function, const UnitInputs& inputs) {
  double sum = 0, square = 0;
  for (const double t : inputs.values) {
    sum += function(t);
    square += function(t) * function(t);
  }
  const auto n = static_cast<double>(inputs.values.size());
  return square / n - sum / n * (sum / n);
}

double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.shape()[1]; ++i) sum += a.Data<double>()[i] * b.Data<double>()[i];
  return sum;
}

Tensor RowOf(const std::vector<double>& values) {
  Tensor row({1, std::ssize(values)}, DataType::kF64);
  std::ranges::copy(values, row.Data<double>());
  return row;
}

class LinearisedStudy {
 public:
  explicit LinearisedStudy(ExperimentRun& run)
      : run_(run),
        progress_("linearised",
                  std::ssize(kDims) * std::ssize(kReaches) + std::ssize(kMeasured) +
                      std::ssize(kTargets) + 1,
                  run.quiet) {}

  void Run() {
    run_.report.AddText(
        "f(w·x) ≈ Φ(w)·Ψ(x): f is replaced by the least-squares polynomial over the law of w·x, "
        "degrees 0 and 1 are exact, and the powers above are estimated by sketches. Directions of "
        "w and x are random, R = |w||x|. Errors are roots of mean squares, as a share of the "
        "standard deviation of f(w·x); a straight line needs no features but x itself.");
    CompareWidths();
    CompareFunctions();
    MeasureErrors();
    MeasureTargets();
  }

 private:
  void CompareWidths() {
    reports::Table table{
        .title = "Error of GELU units",
        .caption = fmt::format("The best degree from 1 to {} for each number of columns, in "
                               "brackets; last: all products of two inputs, and how many columns "
                               "they are.",
                               kMostDegree),
        .columns = {"d", "R", "line", "256 columns", "1024 columns", "4096 columns",
                    "exact squares"},
        .rows = {}};
    reports::Plot plot{.title = "Error of GELU units, d = 16",
                       .caption =
                           "Random columns of the best degree from 2 on; dots: a straight "
                           "line at 17 columns, exact squares at 153.",
                       .x_label = "columns",
                       .y_label = "error / standard deviation",
                       .log_x = true,
                       .log_y = true,
                       .series = {}};
    std::vector<Comparison> usable, higher, squares;
    for (const int64_t dim : kDims) {
      for (const double reach : kReaches) {
        const UnitInputs inputs = RandomInputs(dim, 1, reach);
        const double variance = VarianceOf(Gelu, inputs);
        const auto share = [&](const Linearisation& plan) {
          return std::sqrt(Total(plan) / variance);
        };
        const Linearisation exact =
            LineariseForColumns(Gelu, inputs, {.degree = 2, .exact_quadratic = true});
        const double line = std::sqrt(exact.errors.linear / variance);
        std::vector<std::string> row = {std::to_string(dim), fmt::format("{}", reach),
                                        fmt::format("{:.3f}", line)};
        Json figures = {{"dim", dim}, {"reach", reach}, {"line", line}, {"exact", share(exact)}};
        for (const int64_t width : kWidths) {
          const Linearisation best = BestOf(Gelu, inputs, width, 1, kMostDegree),
                              second = BestOf(Gelu, inputs, width, 2, 2),
                              above = BestOf(Gelu, inputs, width, 3, kMostDegree);
          row.push_back(fmt::format("{:.3f} ({})", share(best), best.polynomial.degree()));
          figures["sketched"].push_back({{"columns", width},
                                         {"error", share(best)},
                                         {"degree", best.polynomial.degree()},
                                         {"error_of_degree_2", share(second)},
                                         {"usable", second.IsUsable()}});
          usable.push_back({{share(second)}, line});
          higher.push_back({{std::min(line, share(second))}, share(above)});
          if (exact.Width() <= width) squares.push_back({{share(exact)}, share(best)});
        }
        row.push_back(fmt::format("{:.3f} ({})", share(exact), exact.Width()));
        table.rows.push_back(std::move(row));
        run_.results["widths"].push_back(std::move(figures));
        if (dim == 16) AddToPlot(inputs, variance, line, share(exact), plot);
        progress_.Update(++done_, fmt::format("d = {}, R = {}", dim, reach));
      }
    }
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
    const auto losing = std::ranges::count_if(
        usable, [](const Comparison& c) { return c.measured.value > c.expected; });
    run_.claims.push_back(
        {.source = "the linearised layer",
         .statement = "sketched squares are better than a straight line",
         .measured = fmt::format("not usable in {} of {} cases", losing, usable.size()),
         .verdict = AllAtMost(usable)});
    run_.claims.push_back(
        {.source = "the linearised layer",
         .statement = "up to 4096 columns, sketches of degree 3 and more do not pay: a line or "
                      "degree 2 is at least as good",
         .measured = NearestToBound(higher, Bound::kMost),
         .verdict = AllAtMost(higher)});
    run_.claims.push_back({.source = "the linearised layer",
                           .statement = "exact squares are better than as many random columns",
                           .measured = NearestToBound(squares, Bound::kMost),
                           .verdict = AllAtMost(squares)});
  }

  static void AddToPlot(const UnitInputs& inputs, double variance, double line, double exact,
                        reports::Plot& plot) {
    const double reach = inputs.input_norm;
    if (reach != 1 && reach != 4 && reach != 16) return;
    const auto color = static_cast<int>(plot.series.size() / 2);
    reports::Series sketched{.name = fmt::format("R = {}", reach), .points = {}, .color = color},
        dots{.name = "", .points = {}, .color = color, .markers = true};
    for (int64_t width = 32; width <= 8192; width *= 2)
      sketched.points.emplace_back(
          static_cast<double>(width),
          std::sqrt(Total(BestOf(Gelu, inputs, width, 2, kMostDegree)) / variance));
    dots.points = {{17, line}, {153, exact}};
    plot.series.push_back(std::move(sketched));
    plot.series.push_back(std::move(dots));
  }

  void CompareFunctions() {
    reports::Table table{.title = "Other functions",
                         .caption = "d = 16, R = 4, as above.",
                         .columns = {"function", "line", "1024 columns", "exact squares",
                                     "verdict on 1024 columns of degree 2"},
                         .rows = {}};
    const UnitInputs inputs = RandomInputs(16, 1, 4);
    for (const auto& [name, function] : kActivated) {
      const double variance = VarianceOf(function, inputs);
      const Linearisation best = BestOf(function, inputs, 1024, 1, kMostDegree),
                          second = BestOf(function, inputs, 1024, 2, 2),
                          exact = LineariseForColumns(function, inputs,
                                                      {.degree = 2, .exact_quadratic = true});
      table.rows.push_back(
          {name, fmt::format("{:.3f}", std::sqrt(best.errors.linear / variance)),
           fmt::format("{:.3f} ({})", std::sqrt(Total(best) / variance), best.polynomial.degree()),
           fmt::format("{:.3f}", std::sqrt(Total(exact) / variance)),
           second.IsUsable() ? "usable" : "not usable here"});
      run_.results["functions"].push_back({{"function", name},
                                           {"line", std::sqrt(best.errors.linear / variance)},
                                           {"sketched", std::sqrt(Total(best) / variance)},
                                           {"exact", std::sqrt(Total(exact) / variance)}});
    }
    run_.report.AddTable(table);
    progress_.Update(++done_, "functions");
  }

  // Directions and sketches drawn anew: the mean square is that of the formulas.
  void MeasureErrors() {
    reports::Table table{.title = "Errors, drawn",
                         .caption = fmt::format("{} draws of w, x and sketches: the mean square "
                                                "of Φ(w)·Ψ(x) less GELU(w·x).",
                                                run_.draws),
                         .columns = {"d", "R", "degree", "random columns", "formula", "measured"},
                         .rows = {}};
    std::vector<Comparison> errors;
    for (const Measurement& one : kMeasured) {
      const Linearisation plan =
          LineariseForColumns(Gelu, RandomInputs(one.dim, 1, one.reach),
                              {.degree = one.degree, .columns = one.columns});
      const RandomStream stream = RandomStream(run_.context.seed(), "linearised").Child(++figure_);
      errors.push_back({MeanSquare(plan, one.reach, stream), Total(plan)});
      table.rows.push_back({std::to_string(one.dim), fmt::format("{}", one.reach),
                            std::to_string(one.degree), std::to_string(one.columns),
                            fmt::format("{:.4f}", errors.back().expected),
                            errors.back().measured.ToText()});
      run_.results["errors"].push_back({{"dim", one.dim},
                                        {"reach", one.reach},
                                        {"degree", one.degree},
                                        {"columns", one.columns},
                                        {"formula", errors.back().expected},
                                        {"measured", errors.back().measured.value}});
      progress_.Update(++done_, fmt::format("d = {}, degree {}", one.dim, one.degree));
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "the error of linearised units",
                           .statement = "bias and variance by the formulas are what sketches have",
                           .measured = LargestZ(errors),
                           .verdict = AllEqual(errors, kPrecision)});
  }

  Measured MeanSquare(const Linearisation& plan, double reach, const RandomStream& stream) const {
    const auto dim = static_cast<size_t>(plan.dim);
    const Context serial({.threads = 1});
    std::vector<double> squares(static_cast<size_t>(run_.draws));
    ParallelFor(run_.context, run_.draws, [&](int64_t draw) {
      const RandomStream own = stream.Child(static_cast<uint64_t>(draw));
      std::vector<double> w(dim), x(dim);
      double ww = 0, xx = 0, wx = 0;
      own.FillNormal(0, w);
      own.FillNormal(dim + dim % 2, x);
      for (size_t i = 0; i < dim; ++i) {
        ww += w[i] * w[i];
        xx += x[i] * x[i];
        wx += w[i] * x[i];
      }
      for (double& value : w) value /= std::sqrt(ww);
      for (double& value : x) value *= reach / std::sqrt(xx);
      const LinearisedFeatures features(plan, own.Bits(1 << 20));
      const double estimate =
          Dot(features.OfWeights(RowOf(w), serial), features.OfInputs(RowOf(x), serial));
      squares[static_cast<size_t>(draw)] =
          std::pow(estimate - Gelu(wx * reach / std::sqrt(ww * xx)), 2);
    });
    return Summarize(squares).mean;
  }

  // The hardest case: all units look along x, and both are flat.
  void MeasureTargets() {
    reports::Table table{
        .title = "Columns for a target error",
        .caption = fmt::format("{} units in {} dimensions, |w| = 1, |x| = R, w·x = R: the sum of "
                               "their mean squares over {} draws, and by the exact formulas. "
                               "Printed: degree and columns of Algorithm 1 of the notes, whose "
                               "errors are rare and large.",
                               kUnits, kUnits, run_.draws),
        .columns = {"R", "target", "degree", "columns", "error", "exactly", "printed degree",
                    "printed columns", "printed error", "exactly"},
        .rows = {}};
    std::vector<Comparison> corrected, printed;
    for (const auto& [reach, error] : kTargets) {
      const Interval interval{-reach, reach};
      const Linearisation plan = LineariseForError(Gelu, {.error = error,
                                                          .units = kUnits,
                                                          .dim = kUnits,
                                                          .interval = interval,
                                                          .weight_norm = 1,
                                                          .input_norm = reach});
      const PublishedColumns published =
          PublishedAlgorithm(Gelu, {.interval = interval,
                                    .units = kUnits,
                                    .error = error,
                                    .largest_second_derivative = kGeluCurve});
      const double root = std::sqrt(static_cast<double>(kUnits));
      const VectorPair pair{.x = std::vector<double>(kUnits, 1 / root),
                            .y = std::vector<double>(kUnits, reach / root)};
      const Measured own = HardestError(plan, pair, reach),
                     theirs = PublishedError(published, pair, reach);
      const double own_exact = ExactError(plan, pair, reach),
                   theirs_exact = ExactError(published, pair, reach);
      corrected.push_back({own, error});
      corrected.push_back({{own_exact}, error});
      printed.push_back({theirs, error});
      printed.push_back({{theirs_exact}, error});
      table.rows.push_back(
          {fmt::format("{}", reach), fmt::format("{}", error),
           std::to_string(plan.polynomial.degree()), std::to_string(plan.Width() - 1 - kUnits),
           own.ToText(), fmt::format("{:.4f}", own_exact),
           std::to_string(published.polynomial.degree()), std::to_string(published.Total()),
           theirs.ToText(), fmt::format("{:.4f}", theirs_exact)});
      run_.results["targets"].push_back({{"reach", reach},
                                         {"target", error},
                                         {"degree", plan.polynomial.degree()},
                                         {"columns", plan.Width() - 1 - kUnits},
                                         {"error", own.value},
                                         {"exact_error", own_exact},
                                         {"printed_degree", published.polynomial.degree()},
                                         {"printed_columns", published.Total()},
                                         {"printed_error", theirs.value},
                                         {"printed_exact_error", theirs_exact}});
      progress_.Update(++done_, fmt::format("target {}", error));
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "columns for a target error",
                           .statement = "bias and variance together are at most the target",
                           .measured = NearestToBound(corrected, Bound::kMost),
                           .verdict = AllAtMost(corrected)});
    run_.claims.push_back({.source = "Algorithm 1 of the notes, as printed",
                           .statement = "the same",
                           .measured = NearestToBound(printed, Bound::kMost),
                           .verdict = AllAtMost(printed)});
  }

  Measured HardestError(const Linearisation& plan, const VectorPair& pair, double t) {
    const RandomStream seeds = RandomStream(run_.context.seed(), "targets").Child(++figure_);
    const Context serial({.threads = 1});
    std::vector<double> squares(static_cast<size_t>(run_.draws));
    ParallelFor(run_.context, run_.draws, [&](int64_t draw) {
      const LinearisedFeatures features(plan, seeds.Bits(static_cast<uint64_t>(draw)));
      const double estimate =
          Dot(features.OfWeights(RowOf(pair.x), serial), features.OfInputs(RowOf(pair.y), serial));
      squares[static_cast<size_t>(draw)] = kUnits * std::pow(estimate - Gelu(t), 2);
    });
    return Summarize(squares).mean;
  }

  static double ExactError(const Linearisation& plan, const VectorPair& pair, double t) {
    return kUnits * (std::pow(plan.polynomial(t) - Gelu(t), 2) +
                     LinearisedFeatures(plan, 0).Variance(pair.x, pair.y));
  }

  static double ExactError(const PublishedColumns& published, const VectorPair& pair, double t) {
    const VectorPair unit = Scaled(published, pair);
    double error = std::pow(published.polynomial(t) - Gelu(t), 2);
    for (size_t k = 2; k < published.columns.size(); ++k) {
      if (published.columns[k] == 0) continue;
      const auto plan = FeaturePlan::Draw({.map = "poly-sketch",
                                           .features = published.columns[k],
                                           .degree = static_cast<int64_t>(k)},
                                          1, kUnits, 0);
      error += std::pow(published.polynomial.coefficients()[k], 2) *
               plan.ExpectedMse(unit.x, unit.y).value();
    }
    return kUnits * error;
  }

  // With w·x between −1 and 1, as the polynomial's powers have it.
  static VectorPair Scaled(const PublishedColumns& published, VectorPair pair) {
    for (double& value : pair.y) value /= published.polynomial.interval().Half();
    return pair;
  }

  // Every degree above 1 is sketched; the notes sketch degree 1 too, which only adds to the error.
  Measured PublishedError(const PublishedColumns& published, const VectorPair& pair, double t) {
    const std::vector<double>& c = published.polynomial.coefficients();
    std::vector<double> sums(static_cast<size_t>(run_.draws), c[0]);
    const VectorPair unit = Scaled(published, pair);
    for (size_t k = 1; k < c.size(); ++k) {
      if (published.columns[k] == 0) continue;
      const std::vector<double> powers =
          DrawEstimates({.map = "poly-sketch",
                         .features = published.columns[k],
                         .degree = static_cast<int64_t>(k)},
                        unit, {.count = run_.draws, .figure = ++figure_}, run_.context);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += c[k] * powers[i];
    }
    for (double& sum : sums) sum = kUnits * std::pow(sum - Gelu(t), 2);
    return Summarize(sums).mean;
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
  uint64_t figure_ = 0;
};

}  // namespace

Experiment LinearisedExperiment() {
  return {.name = "linearised",
          .summary = "feed-forward layers as products of features: errors, columns, usability",
          .subject = "Notes on linearised layers",
          .draws = {.quick = 16, .full = 6000, .paper = 60000},
          .seconds = {.quick = 1, .full = 5, .paper = 40},
          .run = [](ExperimentRun& run) { LinearisedStudy(run).Run(); }};
}

}  // namespace favor::experiments
