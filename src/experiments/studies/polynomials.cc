// Random features of polynomial kernels (x·y)^k: sum-decomposing features and TensorSketch against
// their exact mean squared errors and against the published ones; columns, errors and times over
// degree and m; and what attention makes of kernels that are not positive. (Notes on custom
// kernels.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/outputs.h"
#include "favor/attention.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDim = 16, kColumns = 32;
constexpr int64_t kDegrees[] = {2, 3, 4};
constexpr const char* kMaps[] = {"poly-sum", "poly-sketch"};
constexpr int64_t kSweep[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr double kPrecision = 0.25;  // of a measured error

struct NamedPair {
  std::string name;
  VectorPair pair;
};

// Unit vectors: the same flat one twice, two generic ones at an angle, one generic one twice, and
// one with four elements twice.
std::vector<NamedPair> Pairs() {
  const std::vector<double> flat(kDim, 1 / std::sqrt(static_cast<double>(kDim)));
  std::vector<double> sparse(kDim, 0.0);
  for (const size_t i : {1u, 6u, 7u, 12u}) sparse[i] = 0.5;
  const VectorPair apart = GenericPair(kDim, 1, 1.0, 1), same = GenericPair(kDim, 1, 0.0, 2);
  return {{"flat, x = y", {flat, flat}},
          {"generic, 57°", apart},
          {"generic, x = y", {same.x, same.x}},
          {"4 of 16 elements, x = y", {sparse, sparse}}};
}

// Of a pair: s = x·y, a = ‖x‖²‖y‖², S = Σ x_i² y_i².
struct Sums {
  explicit Sums(const VectorPair& pair) : s(pair.Dot()) {
    double xx = 0, yy = 0;
    for (size_t i = 0; i < pair.x.size(); ++i) {
      xx += pair.x[i] * pair.x[i];
      yy += pair.y[i] * pair.y[i];
      squares += std::pow(pair.x[i] * pair.y[i], 2);
    }
    a = xx * yy;
  }
  double s, a = 0, squares = 0;
};

// ((d·S)^k − s^k)/m: s^k where s^{2k} is right.
double PrintedSum(const Sums& sums, int64_t degree, int64_t columns) {
  const auto k = static_cast<double>(degree);
  return (std::pow(static_cast<double>(kDim) * sums.squares, k) - std::pow(sums.s, k)) /
         static_cast<double>(columns);
}
// (s^{2k} + a^k)/m.
double PrintedSketch(const Sums& sums, int64_t degree, int64_t columns) {
  const auto k = static_cast<double>(degree);
  return (std::pow(sums.s * sums.s, k) + std::pow(sums.a, k)) / static_cast<double>(columns);
}

FeatureOptions Options(const char* map, int64_t degree, int64_t columns, bool rotate = false) {
  return {.map = map, .features = columns, .degree = degree, .rotate = rotate};
}

class PolynomialStudy {
 public:
  explicit PolynomialStudy(ExperimentRun& run)
      : run_(run), progress_("polynomials", 5, run.quiet) {}

  void Run() {
    run_.report.AddText(
        "The kernel (x·y)^k has exact features, all monomials of degree k, of which there are too "
        "many for large k or d. Two random maps estimate it with any number of columns: "
        "sum-decomposing features multiply k elements of a row drawn at random, and TensorSketch "
        "convolves k count sketches of it. Both are unbiased; their errors are known exactly.");
    MeasureErrors();
    CompareRotation();
    SweepColumns();
    MeasureTimes();
    MeasureAttention();
  }

 private:
  Estimate Draw(const FeatureOptions& options, const VectorPair& pair) {
    return MeasureEstimator(options, pair, {run_.draws, ++figure_}, run_.context);
  }

  void MeasureErrors() {
    reports::Table table{
        .title = "Mean squared errors",
        .caption = fmt::format("Unit vectors of {} elements, m = {} columns, {} draws, seed {}. "
                               "Printed: for poly-sum the error of the notes, for poly-sketch "
                               "their upper bound on it.",
                               kDim, kColumns, run_.draws, run_.context.seed()),
        .columns = {"map", "pair", "degree", "measured", "exact formula", "printed"},
        .rows = {}};
    std::vector<Comparison> means, sums, sketches, printed_sums, printed_bounds, bounds;
    for (const char* map : kMaps) {
      const bool is_sum = std::string_view(map) == "poly-sum";
      for (const auto& [name, pair] : Pairs()) {
        const Sums s(pair);
        for (const int64_t degree : kDegrees) {
          const FeatureOptions options = Options(map, degree, kColumns);
          const Estimate estimate = Draw(options, pair);
          const double exact = *FeaturePlan::Draw(options, 1, kDim, 0).ExpectedMse(pair.x, pair.y);
          const double printed = (is_sum ? PrintedSum : PrintedSketch)(s, degree, kColumns);
          const double kernel = std::pow(s.s, static_cast<double>(degree));
          if (exact > 1e-12) {  // else every draw gives the kernel
            means.push_back({estimate.mean, kernel});
            (is_sum ? sums : sketches).push_back({estimate.variance, exact});
            if (is_sum) printed_sums.push_back({estimate.variance, printed});
          }
          if (!is_sum) {
            printed_bounds.push_back({estimate.variance, printed});
            bounds.push_back({estimate.variance, (std::pow(3.0, static_cast<double>(degree)) - 1) *
                                                     std::pow(s.a, static_cast<double>(degree)) /
                                                     static_cast<double>(kColumns)});
          }
          table.rows.push_back({map, name, std::to_string(degree), estimate.variance.ToText(),
                                fmt::format("{:.4g}", exact), fmt::format("{:.4g}", printed)});
          run_.results["errors"].push_back({{"map", map},
                                            {"pair", name},
                                            {"degree", degree},
                                            {"mean", estimate.mean.value},
                                            {"kernel", kernel},
                                            {"measured", estimate.variance.value},
                                            {"standard_error", estimate.variance.standard_error},
                                            {"exact", exact},
                                            {"printed", printed}});
        }
      }
    }
    run_.report.AddTable(table);
    const auto claim = [&](const char* source, const char* statement, std::string measured,
                           Verdict verdict) {
      run_.claims.push_back({source, statement, std::move(measured), verdict});
    };
    claim("both maps", "E φ(x)·φ(y) = (x·y)^k", LargestZ(means), AllEqual(means, 1));
    claim("the error of poly-sum", "((d·Σ x_i² y_i²)^k − s^{2k})/m", LargestZ(sums),
          AllEqual(sums, kPrecision));
    claim("the error of poly-sum, as printed", "((d·Σ x_i² y_i²)^k − s^k)/m",
          LargestZ(printed_sums), AllEqual(printed_sums, kPrecision));
    claim("the error of poly-sketch",
          "{e(2s² + a − 2S)^k + (m − e)((s² + a − S)^k + (2s² − S)^k) − (2m − e)s^{2k}}/m²",
          LargestZ(sketches), AllEqual(sketches, kPrecision));
    claim("the bound for poly-sketch, as printed", "at most (s^{2k} + ‖x‖^{2k}‖y‖^{2k})/m",
          NearestToBound(printed_bounds, Bound::kMost), AllAtMost(printed_bounds));
    claim("a bound for poly-sketch", "at most (3^k − 1)‖x‖^{2k}‖y‖^{2k}/m",
          NearestToBound(bounds, Bound::kMost), AllAtMost(bounds, kPrecision));
    progress_.Update(++done_, "errors");
  }

  void CompareRotation() {
    reports::Table table{
        .title = "Sparse rows, rotated",
        .caption =
            "The error of poly-sum for 4 of 16 elements, x = y, as they are and mixed by "
            "random signs and a Hadamard matrix, next to poly-sketch.",
        .columns = {"degree", "poly-sum", "rotated", "poly-sketch"},
        .rows = {}};
    const VectorPair pair = Pairs()[3].pair;
    std::vector<Comparison> smaller;
    for (const int64_t degree : kDegrees) {
      const Estimate plain = Draw(Options("poly-sum", degree, kColumns), pair),
                     rotated = Draw(Options("poly-sum", degree, kColumns, true), pair),
                     sketch = Draw(Options("poly-sketch", degree, kColumns), pair);
      smaller.push_back({Quotient(rotated.variance, plain.variance), 1});
      table.rows.push_back({std::to_string(degree), plain.variance.ToText(),
                            rotated.variance.ToText(), sketch.variance.ToText()});
      run_.results["rotation"].push_back({{"degree", degree},
                                          {"plain", plain.variance.value},
                                          {"rotated", rotated.variance.value},
                                          {"sketch", sketch.variance.value}});
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "a shared rotation",
                           .statement = "lowers the error of poly-sum for sparse rows",
                           .measured = NearestToBound(smaller, Bound::kMost) + " of the plain one",
                           .verdict = AllAtMost(smaller)});
    progress_.Update(++done_, "rotation");
  }

  void SweepColumns() {
    const VectorPair pair = Pairs()[1].pair;
    const double s = pair.Dot();
    reports::Plot plot{.title = "Relative error over the number of columns",
                       .caption =
                           "√MSE/(x·y)^k by the exact formulas, generic unit vectors of 16 "
                           "elements at 57°.",
                       .x_label = "columns m",
                       .y_label = "relative error",
                       .log_x = true,
                       .log_y = true,
                       .series = {}};
    reports::Table table{
        .title = "Columns that an error takes",
        .caption =
            "The columns with which √MSE is a tenth of (x·y)^k for that pair, and those of "
            "the exact map for rows of 16 and of 64 elements.",
        .columns = {"degree", "poly-sum", "poly-sketch", "poly-exact, d = 16", "d = 64"},
        .rows = {}};
    int color = 0;
    for (const int64_t degree : kDegrees) {
      const double kernel = std::pow(s, static_cast<double>(degree));
      std::vector<std::string> row{std::to_string(degree)};
      for (const char* map : kMaps) {
        const auto mse = [&](int64_t columns) {
          return *FeaturePlan::Draw(Options(map, degree, columns), 1, kDim, 0)
                      .ExpectedMse(pair.x, pair.y);
        };
        reports::Series series{
            .name = fmt::format("{}, degree {}", map, degree), .points = {}, .color = color++};
        for (const int64_t columns : kSweep)
          series.points.emplace_back(static_cast<double>(columns),
                                     std::sqrt(mse(columns)) / kernel);
        plot.series.push_back(std::move(series));
        // Errors fall like 1/m but for terms of 1/m².
        const double needed = mse(4096) * 4096 / (0.01 * kernel * kernel);
        row.push_back(fmt::format("{:.0f}", needed));
        run_.results["columns"].push_back({{"map", map}, {"degree", degree}, {"columns", needed}});
      }
      for (const double dim : {16.0, 64.0}) {
        double monomials = 1;
        for (int64_t k = 0; k < degree; ++k)
          monomials *= (dim + static_cast<double>(k)) / static_cast<double>(k + 1);
        row.push_back(fmt::format("{:.0f}", monomials));
      }
      table.rows.push_back(std::move(row));
    }
    run_.report.AddPlot(plot);
    run_.report.AddTable(table);
    progress_.Update(++done_, "columns");
  }

  void MeasureTimes() {
    constexpr int64_t kRows = 512, kRowDim = 64;
    reports::Plot plot{
        .title = "Time of a row's features",
        .caption = fmt::format("Rows of {} elements, one thread: O(k·m) for poly-sum "
                               "and O(k(d + m log m)) for poly-sketch.",
                               kRowDim),
        .x_label = "columns m",
        .y_label = "microseconds",
        .log_x = true,
        .log_y = true,
        .series = {}};
    reports::Table table{.title = "Time of a row's features",
                         .caption =
                             "Shortest of five runs over 512 rows of 64 elements; last "
                             "column: the time of poly-sketch over k(d + m log₂ m).",
                         .columns = {"degree", "m", "poly-sum, µs", "poly-sketch, µs", "ns"},
                         .rows = {}};
    const Context serial({.threads = 1});
    const Tensor x = benchmarks::RandomNormal({kRows, kRowDim}, 1, run_.context.seed(), "rows");
    int color = 0;
    for (const int64_t degree : {int64_t{2}, int64_t{4}}) {
      std::vector<reports::Series> series;
      for (const char* map : kMaps)
        series.push_back(
            {.name = fmt::format("{}, degree {}", map, degree), .points = {}, .color = color++});
      for (const int64_t columns : kSweep) {
        std::vector<std::string> row{std::to_string(degree), std::to_string(columns)};
        double micros = 0;
        for (size_t i = 0; i < std::size(kMaps); ++i) {
          const FeaturePlan plan =
              FeaturePlan::Draw(Options(kMaps[i], degree, columns), 1, kRowDim, 0);
          Tensor exponents({kRows, plan.width()}), factors({kRows, plan.width()});
          micros = 1e6 / static_cast<double>(kRows) *
                   LeastSeconds(5, [&] { FeatureExponents(plan, x, serial, exponents, factors); });
          series[i].points.emplace_back(static_cast<double>(columns), micros);
          row.push_back(fmt::format("{:.2f}", micros));
          run_.results["times"].push_back(
              {{"map", kMaps[i]}, {"degree", degree}, {"columns", columns}, {"micros", micros}});
        }
        const auto m = static_cast<double>(columns);
        row.push_back(fmt::format(
            "{:.3f}",
            1e3 * micros /
                (static_cast<double>(degree) * (static_cast<double>(kRowDim) + m * std::log2(m)))));
        table.rows.push_back(std::move(row));
      }
      for (reports::Series& one : series) plot.series.push_back(std::move(one));
    }
    run_.report.AddPlot(plot);
    run_.report.AddTable(table);
    progress_.Update(++done_, "times");
  }

  // Attention with a polynomial of s = q·k/√d as its kernel: random maps against the exact one.
  void MeasureAttention() {
    constexpr int64_t kLength = 256;
    reports::Table table{
        .title = "Attention with polynomial kernels",
        .caption = fmt::format(
            "{} tokens of dim {}, deviation 1: |out − exact|/|exact| of the random maps "
            "against poly-exact over rows whose denominators are positive in both, and "
            "the share of rows where they are not. A row without a positive "
            "denominator is 0: there is nothing to normalise by.",
            kLength, kDim),
        .columns = {"kernel", "poly-exact ≤ 0", "map", "m", "error", "rows ≤ 0"},
        .rows = {}};
    const RandomInputs in(kLength, kDim, 1, run_.context.seed());
    const std::pair<const char*, std::vector<double>> kernels[] = {
        {"s²", {0, 0, 1}},
        {"s³", {0, 0, 0, 1}},
        {"1 + s + s²/2", {1, 1, 0.5}},
        {"1 + s + s²/2 + s³/6 + s⁴/24", {1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24}}};
    for (const auto& [name, coefficients] : kernels) {
      AttentionReport exact_report;
      const AttentionOptions exact{.features = {.map = "poly-exact", .coefficients = coefficients}};
      const Tensor want = Attend(in.q, in.k, in.v, exact, run_.context, {.report = &exact_report});
      const double exact_share =
          static_cast<double>(exact_report.nonpositive_rows) / static_cast<double>(kLength);
      for (const char* map : kMaps) {
        for (const int64_t columns : {int64_t{64}, int64_t{1024}}) {
          AttentionReport report;
          const Tensor got =
              Attend(in.q, in.k, in.v,
                     {.features = {.map = map, .features = columns, .coefficients = coefficients}},
                     run_.context, {.report = &report});
          const double error = ErrorOfRows(got, want),
                       share = static_cast<double>(report.nonpositive_rows) /
                               static_cast<double>(kLength);
          table.rows.push_back({name, fmt::format("{:.0f} %", 100 * exact_share), map,
                                std::to_string(columns), fmt::format("{:.3g}", error),
                                fmt::format("{:.0f} %", 100 * share)});
          run_.results["attention"].push_back({{"kernel", name},
                                               {"map", map},
                                               {"columns", columns},
                                               {"error", error},
                                               {"nonpositive", share},
                                               {"exact_nonpositive", exact_share}});
        }
      }
    }
    run_.report.AddTable(table);
    progress_.Update(++done_, "attention");
  }

  // ‖a − b‖/‖b‖ over rows that are not 0 in either.
  static double ErrorOfRows(const Tensor& a, const Tensor& b) {
    const int64_t columns = a.shape()[1];
    double difference = 0, size = 0;
    for (int64_t row = 0; row < a.shape()[0]; ++row) {
      const float *x = a.Data<float>() + row * columns, *y = b.Data<float>() + row * columns;
      if (std::all_of(x, x + columns, [](float v) { return v == 0; }) ||
          std::all_of(y, y + columns, [](float v) { return v == 0; }))
        continue;
      for (int64_t c = 0; c < columns; ++c) {
        difference += std::pow(static_cast<double>(x[c]) - y[c], 2);
        size += std::pow(static_cast<double>(y[c]), 2);
      }
    }
    return std::sqrt(difference / size);
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
  uint64_t figure_ = 0;
};

}  // namespace

Experiment PolynomialsExperiment() {
  return {.name = "polynomials",
          .summary = "random features of polynomial kernels: exact and printed errors, times",
          .subject = "Notes on polynomial kernels",
          .draws = {.quick = 400, .full = 20000, .paper = 20000},
          .seconds = {.quick = 2, .full = 30, .paper = 30},
          .run = [](ExperimentRun& run) { PolynomialStudy(run).Run(); }};
}

}  // namespace favor::experiments
