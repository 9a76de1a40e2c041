// GELU from a few terms of its Taylor series, drawn at random: whether the estimates are without
// bias, what their variance is, and whether they are worth it. (Notes on custom kernels, the Taylor
// composition.)
#include "favor/taylor_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "favor/polynomial.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

constexpr int kTerms = 60;  // of the series: exact to 1e-12 up to |t| = 3
constexpr double kArguments[] = {0.5, 1, 2, 3};
constexpr double kMostMeasured = 2;  // beyond, no number of draws in reach shows the variance
constexpr int kEvaluated = 6;        // powers that each estimate of the second table may use
constexpr double kRho = 0.3;
constexpr double kPrecision = 0.05;
// Powers estimated by sketches: (w·x)^k from features of degree k.
constexpr int64_t kDim = 8, kColumns = 64;
constexpr int kSketchedTerms = 6;

double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }

double Deviation(const SeriesEstimator& estimator, const PowerMoments& powers) {
  const double mean = estimator.Mean(powers);
  return std::sqrt(std::max(0.0, estimator.SecondMoment(powers) - mean * mean));
}

// The law with the smallest deviation among those of a family.
template <class Law>
SeriesEstimator Best(const PowerSeries& series, const PowerMoments& powers, double least,
                     double most, const Law& law) {
  double best = least;
  const auto with = [&](double parameter) {
    return SeriesEstimator::SingleTerm(series, law(parameter, series.terms()));
  };
  for (int step = 0; step <= 80; ++step) {
    const double parameter = least + (most - least) * step / 80;
    if (with(parameter).SecondMoment(powers) < with(best).SecondMoment(powers)) best = parameter;
  }
  return with(best);
}

// The first `head` terms, and one of the others by the optimal law.
SeriesEstimator HeadAndTail(const PowerSeries& series, double t, size_t head) {
  const auto from = [&](auto values) {
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(head));
    return values;
  };
  const PowerSeries tail{.powers = from(series.powers), .coefficients = from(series.coefficients)};
  return SeriesEstimator::HeadAndTail(series, head, OptimalLaw(tail, ExactPowers(tail, t)));
}

// The mean of draws. Those of the optimal law are all of the same size: what their squares differ
// by is rounding, and not a standard error.
Measured MeanOf(const std::vector<double>& draws) {
  Measured mean = Summarize(draws).mean;
  if (mean.standard_error < 1e-12 * std::fabs(mean.value)) mean.standard_error = 0;
  return mean;
}

struct Named {
  std::string name;
  SeriesEstimator estimator;
};
std::vector<Named> Estimators(const PowerSeries& series, double t) {
  const PowerMoments powers = ExactPowers(series, t);
  return {
      {"one term, geometric law", Best(series, powers, 0.02, 0.9, GeometricLaw)},
      {"one term, Poisson law", Best(series, powers, 0.2, 10, PoissonLaw)},
      {"one term, optimal law", SeriesEstimator::SingleTerm(series, OptimalLaw(series, powers))},
      {"Russian roulette", SeriesEstimator::Roulette(series, 1 - 1.0 / kEvaluated)},
      {"head and random tail", HeadAndTail(series, t, kEvaluated - 1)}};
}

class TaylorStudy {
 public:
  explicit TaylorStudy(ExperimentRun& run)
      : run_(run), progress_("taylor-series", std::ssize(kArguments) + 2, run.quiet) {}

  void Run() {
    run_.report.AddText(
        "GELU(t) = t/2 + Σ_j (−1)^j t^(2j+2)/(√(2π)(2j + 1)2^j j!). A term drawn at random and "
        "divided by its probability estimates the sum without bias. Terms that are 0 are not "
        "drawn.");
    CompareDeviations();
    MeasureMoments();
    MeasureSketches();
    MeasureTerms();
  }

 private:
  void CompareDeviations() {
    reports::Table one{
        .title = "Standard deviation of one estimate",
        .caption =
            "From the exact second moments; parameters of the geometric and Poisson laws "
            "are the best ones for each t. Last column: Σ|a_k||t|^k, which the optimal law "
            "has as its root mean square.",
        .columns = {"t", "GELU(t)", "geometric", "Poisson", "optimal", "Σ|a_k||t|^k"},
        .rows = {}},
        same{.title = "Errors with six powers each",
             .caption =
                 "Standard deviations of: the mean of six draws by the optimal law, Russian "
                 "roulette with six terms on average, five terms and one random one of the rest. "
                 "Biases: the first six terms; a polynomial of degree 6 by Chebyshev, its largest "
                 "error on [−t, t].",
             .columns = {"t", "six draws", "roulette", "head and tail", "six terms", "polynomial"},
             .rows = {}};
    reports::Plot plot{.title = "Errors with six powers each",
                       .caption = "What unbiased estimates cost next to a polynomial.",
                       .x_label = "t",
                       .y_label = "error",
                       .log_y = true,
                       .series = {}};
    const char* names[] = {"six draws", "roulette", "head and tail", "polynomial"};
    for (int i = 0; i < 4; ++i) plot.series.push_back({.name = names[i], .points = {}, .color = i});
    std::vector<Comparison> better;
    for (const double t : kArguments) {
      const PowerMoments powers = ExactPowers(series_, t);
      const std::vector<Named> all = Estimators(series_, t);
      std::vector<double> deviations;
      for (const Named& named : all) deviations.push_back(Deviation(named.estimator, powers));
      const double draws = deviations[2] / std::sqrt(kEvaluated),
                   terms = std::fabs(GeluSeries(kEvaluated)(t) - Gelu(t)),
                   polynomial = LargestDifference(
                       FitPolynomial(Gelu, {-t, t}, kEvaluated, Fit::kChebyshev), Gelu, {-t, t});
      one.rows.push_back(
          {fmt::format("{}", t), fmt::format("{:.4f}", Gelu(t)),
           fmt::format("{:.3f}", deviations[0]), fmt::format("{:.3f}", deviations[1]),
           fmt::format("{:.3f}", deviations[2]), fmt::format("{:.3f}", series_.SumOfSizes(t))});
      same.rows.push_back({fmt::format("{}", t), fmt::format("{:.4f}", draws),
                           fmt::format("{:.4f}", deviations[3]),
                           fmt::format("{:.5f}", deviations[4]), fmt::format("{:.5f}", terms),
                           fmt::format("{:.5f}", polynomial)});
      run_.results["deviations"].push_back({{"t", t},
                                            {"geometric", deviations[0]},
                                            {"poisson", deviations[1]},
                                            {"optimal", deviations[2]},
                                            {"sizes", series_.SumOfSizes(t)},
                                            {"six_draws", draws},
                                            {"roulette", deviations[3]},
                                            {"head_and_tail", deviations[4]},
                                            {"six_terms", terms},
                                            {"polynomial", polynomial}});
      const double shown[] = {draws, deviations[3], deviations[4], polynomial};
      for (size_t i = 0; i < 4; ++i) {
        plot.series[i].points.emplace_back(t, shown[i]);
        if (i < 3 && t >= 1) better.push_back({{polynomial}, shown[i]});
      }
      progress_.Update(++done_, fmt::format("t = {}", t));
    }
    run_.report.AddTable(one);
    run_.report.AddTable(same);
    run_.report.AddPlot(plot);
    run_.claims.push_back(
        {.source = "the Taylor composition",
         .statement = "a polynomial of degree 6 has a smaller error than any unbiased estimate "
                      "from six powers, for t of 1 and more",
         .measured = fmt::format("t = 2: {} instead of {}, {} and {}", same.rows[2][5],
                                 same.rows[2][1], same.rows[2][2], same.rows[2][3]),
         .verdict = AllAtMost(better)});
  }

  void MeasureMoments() {
    reports::Table table{
        .title = "Estimates, drawn",
        .caption = fmt::format("{} draws each; formula: the exact root mean "
                               "square.",
                               run_.draws),
        .columns = {"estimate", "t", "GELU(t)", "mean", "|z|", "formula", "measured"},
        .rows = {}};
    std::vector<Comparison> means, squares;
    for (const double t : kArguments) {
      if (t > kMostMeasured) continue;
      const PowerMoments powers = ExactPowers(series_, t);
      for (const auto& [name, estimator] : Estimators(series_, t)) {
        const RandomStream stream =
            RandomStream(run_.context.seed(), "taylor series").Child(++figure_);
        std::vector<double> values, square;
        for (int64_t i = 0; i < run_.draws; ++i) {
          values.push_back(estimator.Draw(stream.Uniform(static_cast<uint64_t>(i)),
                                          [&](int power) { return std::pow(t, power); }));
          square.push_back(values.back() * values.back());
        }
        AddFigures(name, t, estimator.SecondMoment(powers), values, square, means, squares, table);
      }
    }
    run_.report.AddTable(table);
    Claim("powers of t", means, squares);
    progress_.Update(++done_, "draws");
  }

  // t^k from features of degree k, drawn anew for each estimate: E û² = t^{2k} + MSE_k.
  void MeasureSketches() {
    reports::Table table{
        .title = "Estimates from sketches, drawn",
        .caption = fmt::format("t = w·x with t^k from {} columns of poly-sketch, d = {}; {} terms "
                               "of the series.",
                               kColumns, kDim, kSketchedTerms),
        .columns = {"estimate", "t", "series", "mean", "|z|", "formula", "measured"},
        .rows = {}};
    const PowerSeries series = GeluSeries(kSketchedTerms);
    const VectorPair pair = GenericPair(kDim, 1, 0.6, run_.context.seed());
    const double t = pair.Dot();
    PowerMoments powers = ExactPowers(series, t);
    std::map<int, std::vector<double>> sketched;
    for (size_t k = 0; k < series.terms(); ++k) {
      const int power = series.powers[k];
      if (power == 1) continue;  // exact
      const FeatureOptions options{.map = "poly-sketch", .features = kColumns, .degree = power};
      powers.variances[k] =
          FeaturePlan::Draw(options, 1, kDim, 0).ExpectedMse(pair.x, pair.y).value();
      sketched[power] =
          DrawEstimates(options, pair, {.count = run_.draws, .figure = ++figure_}, run_.context);
    }
    const std::vector<Named> all = {
        {"one term, optimal law", SeriesEstimator::SingleTerm(series, OptimalLaw(series, powers))},
        {"Russian roulette", SeriesEstimator::Roulette(series, 0.5)},
        {"head and random tail", HeadAndTail(series, t, 2)}};
    std::vector<Comparison> means, squares;
    for (const auto& [name, estimator] : all) {
      const RandomStream stream =
          RandomStream(run_.context.seed(), "taylor series").Child(++figure_);
      std::vector<double> values, square;
      for (int64_t i = 0; i < run_.draws; ++i) {
        values.push_back(estimator.Draw(stream.Uniform(static_cast<uint64_t>(i)), [&](int power) {
          return power == 1 ? t : sketched[power][static_cast<size_t>(i)];
        }));
        square.push_back(values.back() * values.back());
      }
      AddFigures(name, t, estimator.SecondMoment(powers), values, square, means, squares, table,
                 series(t));
    }
    run_.report.AddTable(table);
    Claim("powers from sketches", means, squares);
    progress_.Update(++done_, "sketches");
  }

  void AddFigures(const std::string& name, double t, double second,
                  const std::vector<double>& values, const std::vector<double>& square,
                  std::vector<Comparison>& means, std::vector<Comparison>& squares,
                  reports::Table& table, std::optional<double> expected = {}) {
    const double exact = expected.value_or(Gelu(t));
    means.push_back({MeanOf(values), exact});
    squares.push_back({MeanOf(square), second});
    const Measured root{
        std::sqrt(squares.back().measured.value),
        squares.back().measured.standard_error / (2 * std::sqrt(squares.back().measured.value))};
    table.rows.push_back({name, fmt::format("{:.3g}", t), fmt::format("{:.4f}", exact),
                          means.back().measured.ToText(),
                          fmt::format("{:.1f}", std::fabs(means.back().Z())),
                          fmt::format("{:.4f}", std::sqrt(second)), root.ToText()});
    run_.results["drawn"].push_back({{"estimate", name},
                                     {"t", t},
                                     {"exact", exact},
                                     {"mean", means.back().measured.value},
                                     {"standard_error", means.back().measured.standard_error},
                                     {"second_moment", second},
                                     {"measured_second_moment", squares.back().measured.value}});
  }

  void Claim(const std::string& of, const std::vector<Comparison>& means,
             const std::vector<Comparison>& squares) {
    std::vector<Comparison> sampled = squares;
    std::erase_if(sampled, [](const Comparison& c) { return c.measured.standard_error == 0; });
    run_.claims.push_back({.source = "the Taylor composition",
                           .statement = of + ": estimates are without bias",
                           .measured = LargestZ(means),
                           .verdict = AllEqual(means, kPrecision)});
    run_.claims.push_back({.source = "the second moment, exactly",
                           .statement = of + ": Σ_K p_K of the square of what outcome K gives, and "
                                             "the variance of its powers",
                           .measured = LargestZ(sampled),
                           .verdict = AllEqual(squares, kPrecision)});
  }

  void MeasureTerms() {
    const std::vector<double> law = GeometricLaw(kRho, 400);
    const RandomStream stream = RandomStream(run_.context.seed(), "taylor series").Child(++figure_);
    std::vector<double> drawn;
    for (int64_t i = 0; i < run_.draws; ++i) {
      double left = stream.Uniform(static_cast<uint64_t>(i));
      size_t k = 0;
      while (k + 1 < law.size() && left >= law[k]) left -= law[k++];
      drawn.push_back(static_cast<double>(k));
    }
    const Measured mean = Summarize(drawn).mean;
    run_.results["terms"] = {
        {"rho", kRho}, {"mean", mean.value}, {"standard_error", mean.standard_error}};
    const auto claim = [&](const char* source, const char* statement, double expected) {
      const Comparison comparison{mean, expected};
      run_.claims.push_back(
          {.source = source,
           .statement = statement,
           .measured = fmt::format("ρ = {}: {}, claimed {:.4f}", kRho, mean.ToText(), expected),
           .verdict = AllEqual({{comparison}}, kPrecision)});
    };
    claim("the geometric law", "E K = 1/ρ − 1", 1 / kRho - 1);
    claim("the geometric law, as printed", "E K = 1/ρ + 1", 1 / kRho + 1);
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
  uint64_t figure_ = 0;
  const PowerSeries series_ = GeluSeries(kTerms);
};

}  // namespace

Experiment TaylorSeriesExperiment() {
  return {
      .name = "taylor-series",
      .summary = "GELU from random terms of its series: bias, variance, and polynomials instead",
      .subject = "Notes on linearised layers",
      .draws = {.quick = 500, .full = 100000, .paper = 1000000},
      .seconds = {.quick = 1, .full = 10, .paper = 100},
      .run = [](ExperimentRun& run) { TaylorStudy(run).Run(); }};
}

}  // namespace favor::experiments
