// The largest error of an attention matrix against the number of features, next to the number that
// theory asks for (Performers, Theorem 4).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "favor/attention.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

struct Case {
  int64_t dim;
  double radius;  // norm of queries and keys before they are scaled
};
constexpr Case kCases[] = {{16, 1}, {16, 2}, {16, 4}, {64, 1}, {64, 4}, {64, 8}};
constexpr double kErrors[] = {0.1, 0.5};
constexpr double kSlope = -0.4;   // the error falls at least like m to this power
constexpr double kFailing = 0.5;  // probability of failure that the explicit bound allows

// Rows of norm `radius`, uniform in direction.
Tensor RowsOfNorm(const Shape& shape, double radius, const RandomStream& stream) {
  const int64_t length = shape[0], dim = shape[1];
  Tensor rows({length, dim});
  std::vector<double> row(static_cast<size_t>(dim));
  for (int64_t i = 0; i < length; ++i) {
    stream.FillNormal(static_cast<uint64_t>(i * dim), row);
    double square = 0;
    for (const double value : row) square += value * value;
    for (int64_t j = 0; j < dim; ++j)
      rows.Data<float>()[i * dim + j] =
          static_cast<float>(radius * row[static_cast<size_t>(j)] / std::sqrt(square));
  }
  return rows;
}

Tensor IdentityMatrix(int64_t size) {
  Tensor matrix({size, size});
  for (int64_t i = 0; i < size; ++i) matrix.Data<float>()[i * size + i] = 1;
  return matrix;
}

// The numbers of features of the theorem, without its constant, and of Rahimi and Recht's bound for
// independent rows, whose constants are known.
struct Asked {
  double printed, explicit_bound;
};
Asked AskedFor(const Case& one, double error) {
  const auto d = static_cast<double>(one.dim);
  const double delta = error / std::exp(one.radius * one.radius / std::sqrt(d));
  return {.printed = d / (delta * delta) * std::log(4 * std::pow(d, 0.75) * one.radius / delta),
          .explicit_bound = 4 * (d + 2) / (delta * delta) *
                            (std::log(256 / kFailing) + 2 * std::log(std::sqrt(d) * 4 * one.radius *
                                                                     std::pow(d, -0.25) / delta))};
}

class ConvergenceStudy {
 public:
  explicit ConvergenceStudy(ExperimentRun& run)
      : run_(run),
        length_(ByScale<int64_t>{64, 256, 1024}.At(run.scale)),
        most_features_(ByScale<int64_t>{1024, 16384, 65536}.At(run.scale)),
        progress_("convergence", std::ssize(kCases) * run.draws, run.quiet) {
    for (int64_t m = 16; m <= most_features_; m *= 4) features_.push_back(m);
  }

  void Run() {
    run_.report.AddText(fmt::format(
        "The attention matrix exp(q·k/√d) of {} queries and {} keys of norm R, estimated by "
        "trigonometric features on orthogonal rows of ω; its error is the largest of all entries. "
        "Theorem 4 asks for m of the order of d/δ²·log(4 d^(3/4) R/δ) to stay below ε, with δ = "
        "ε exp(−R²/√d); the explicit bound is Rahimi and Recht's for independent rows, with "
        "probability {}. Both hold for all queries and keys in a ball at once.",
        length_, length_, kFailing));
    for (const Case& one : kCases) Measure(one);
    AddErrors();
    AddAsked();
  }

 private:
  struct Row {
    Case one;
    std::vector<std::vector<double>> errors;  // [features][draws]
  };

  void Measure(const Case& one) {
    Row row{.one = one, .errors = std::vector<std::vector<double>>(features_.size())};
    const Tensor identity = IdentityMatrix(length_);
    for (int64_t draw = 0; draw < run_.draws; ++draw) {
      const RandomStream stream =
          RandomStream(run_.context.seed(), "convergence").Child(static_cast<uint64_t>(draw));
      const Tensor q = RowsOfNorm({length_, one.dim}, one.radius, stream.Child(0)),
                   k = RowsOfNorm({length_, one.dim}, one.radius, stream.Child(1));
      for (size_t place = 0; place < features_.size(); ++place)
        row.errors[place].push_back(LargestError(q, k, identity, features_[place], draw));
      progress_.Update(++done_, fmt::format("d = {}, R = {}", one.dim, one.radius));
    }
    rows_.push_back(std::move(row));
  }

  double LargestError(const Tensor& q, const Tensor& k, const Tensor& identity, int64_t features,
                      int64_t draw) const {
    const int64_t dim = q.shape()[1];
    const auto plan = FeaturePlan::Draw({.map = "trigonometric", .features = features}, 1, dim,
                                        run_.context.seed(), static_cast<uint64_t>(draw));
    const Tensor matrix =
        Attend(q, k, identity, {.renormalize = false, .plan = plan}, run_.context);
    double largest = 0;
    for (int64_t i = 0; i < length_; ++i) {
      for (int64_t j = 0; j < length_; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < dim; ++c)
          dot += static_cast<double>(q.Data<float>()[i * dim + c]) *
                 static_cast<double>(k.Data<float>()[j * dim + c]);
        const double exact = std::exp(dot / std::sqrt(static_cast<double>(dim)));
        largest = std::max(
            largest, std::fabs(static_cast<double>(matrix.Data<float>()[i * length_ + j]) - exact));
      }
    }
    return largest;
  }

  // The exponent of m in the error, from a line through the logarithms, for each draw.
  Measured Slope(const Row& row) const {
    std::vector<double> slopes;
    for (size_t draw = 0; draw < row.errors[0].size(); ++draw) {
      double n = 0, x = 0, y = 0, xx = 0, xy = 0;
      for (size_t place = 0; place < features_.size(); ++place) {
        const double a = std::log(static_cast<double>(features_[place])),
                     b = std::log(row.errors[place][draw]);
        n += 1;
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
      }
      slopes.push_back((n * xy - x * y) / (n * xx - x * x));
    }
    return Summarize(slopes).mean;
  }

  void AddErrors() {
    reports::Table table{
        .title = "Largest error of the attention matrix",
        .caption = fmt::format("Mean of {} draws of q, k and ω, with its standard error; exponent: "
                               "of m in the error.",
                               run_.draws),
        .columns = {"d", "R"},
        .rows = {}};
    for (const int64_t m : features_) table.columns.push_back(fmt::format("m = {}", m));
    table.columns.emplace_back("exponent");
    reports::Plot plot{.title = "Largest error against the number of features",
                       .caption = "Bars: standard deviations over draws.",
                       .x_label = "m",
                       .y_label = "largest error",
                       .log_x = true,
                       .log_y = true,
                       .series = {}};
    std::vector<Comparison> slopes;
    int color = 0;
    for (const Row& row : rows_) {
      std::vector<std::string>& cells = table.rows.emplace_back(
          std::vector<std::string>{std::to_string(row.one.dim), fmt::format("{}", row.one.radius)});
      reports::Series series{.name = fmt::format("d = {}, R = {}", row.one.dim, row.one.radius),
                             .points = {},
                             .color = color++};
      for (size_t place = 0; place < features_.size(); ++place) {
        const Estimate estimate = Summarize(row.errors[place]);
        cells.push_back(estimate.mean.ToText());
        series.points.emplace_back(static_cast<double>(features_[place]), estimate.mean.value);
        series.deviations.push_back(std::sqrt(estimate.variance.value));
        run_.results["errors"].push_back({{"dim", row.one.dim},
                                          {"radius", row.one.radius},
                                          {"features", features_[place]},
                                          {"error", estimate.mean.value},
                                          {"standard_error", estimate.mean.standard_error}});
      }
      slopes.push_back({Slope(row), kSlope});
      cells.push_back(slopes.back().measured.ToText());
      plot.series.push_back(std::move(series));
    }
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
    std::string shown;
    for (const Comparison& slope : slopes)
      shown += fmt::format("{}{:.2f}", shown.empty() ? "" : ", ", slope.measured.value);
    run_.claims.push_back(
        {.source = "Theorem 4, in m",
         .statement = fmt::format("the largest error falls at least like m^{}", kSlope),
         .measured = "exponents " + shown,
         .verdict = AllAtMost(slopes)});
  }

  void AddAsked() {
    reports::Table table{
        .title = "Numbers of features: asked for by theory, and sufficient",
        .caption =
            "Suffices: the smallest m of those tried with which no draw has an error above "
            "ε; > : none of them.",
        .columns = {"d", "R", "ε", "Theorem 4", "explicit bound", "suffices"},
        .rows = {}};
    std::vector<Comparison> enough;
    for (const Row& row : rows_) {
      for (const double error : kErrors) {
        const Asked asked = AskedFor(row.one, error);
        std::string suffices = fmt::format("> {}", features_.back());
        for (size_t place = features_.size(); place-- > 0;) {
          if (std::ranges::max(row.errors[place]) > error) break;
          suffices = std::to_string(features_[place]);
        }
        // The theorem is tested at the first number that is not below what it asks for.
        const auto place = std::ranges::lower_bound(features_, static_cast<int64_t>(asked.printed));
        if (place != features_.end())
          enough.push_back(
              {Summarize(row.errors[static_cast<size_t>(place - features_.begin())]).mean, error});
        table.rows.push_back({std::to_string(row.one.dim), fmt::format("{}", row.one.radius),
                              fmt::format("{}", error), fmt::format("{:.2g}", asked.printed),
                              fmt::format("{:.2g}", asked.explicit_bound), suffices});
        run_.results["asked"].push_back({{"dim", row.one.dim},
                                         {"radius", row.one.radius},
                                         {"error", error},
                                         {"printed", asked.printed},
                                         {"explicit", asked.explicit_bound},
                                         {"suffices", suffices}});
      }
    }
    run_.report.AddTable(table);
    run_.claims.push_back(
        {.source = "Theorem 4",
         .statement = "as many features as it asks for (constant 1) keep the error below ε",
         .measured = fmt::format("{} ({} cases in all, the others ask for more than {} features)",
                                 NearestToBound(enough, Bound::kMost),
                                 std::size(kCases) * std::size(kErrors), features_.back()),
         .verdict = AllAtMost(enough)});
  }

  ExperimentRun& run_;
  int64_t length_, most_features_;
  std::vector<int64_t> features_;
  Progress progress_;
  int64_t done_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

Experiment ConvergenceExperiment() {
  return {.name = "convergence",
          .summary = "the largest error of an attention matrix against the number of features",
          .subject = "Theorem 4",
          .draws = {.quick = 3, .full = 15, .paper = 15},
          .seconds = {.quick = 1, .full = 40, .paper = 2000},
          .run = [](ExperimentRun& run) { ConvergenceStudy(run).Run(); }};
}

}  // namespace favor::experiments
