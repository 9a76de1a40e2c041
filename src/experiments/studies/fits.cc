// Polynomials for the activations of feed-forward layers: how high a degree a small error takes by
// Bernstein's, Chebyshev's and least-squares polynomials, the bounds on Bernstein's, and which
// basis floats survive. (Notes on custom kernels, the linearised feed-forward layer.)
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "core/progress.h"
#include "experiments/experiment.h"
#include "favor/polynomial.h"

namespace favor::experiments {
namespace {

struct Activated {
  const char* name;
  double (*function)(double);
  double largest_second_derivative;  // 0: there is none, and slopes are at most 1
};
double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }
double Tanh(double t) { return std::tanh(t); }
double Sigmoid(double t) { return 1 / (1 + std::exp(-t)); }
double Relu(double t) { return std::max(t, 0.0); }

// GELU'' = (2 − t²)ϕ(t) is largest at 0. tanh'' and σ'' are largest where their third derivative
// vanishes: 4/(3√3) and 1/(6√3).
const double kGeluCurve = 2 / std::sqrt(2 * std::numbers::pi);
const Activated kActivated[] = {{"gelu", Gelu, kGeluCurve},
                                {"tanh", Tanh, 4 / (3 * std::sqrt(3.0))},
                                {"sigmoid", Sigmoid, 1 / (6 * std::sqrt(3.0))},
                                {"relu", Relu, 0}};
constexpr double kRadii[] = {2, 4, 8};
constexpr double kErrors[] = {0.1, 0.01, 0.001};
constexpr int kBernsteinDegrees[] = {4, 8, 16, 32, 50};
constexpr int kBasisDegrees[] = {8, 16, 24, 32, 40, 50};

// The largest error of a polynomial, evaluated in floats.
double FloatError(const Polynomial& polynomial, const Function& function) {
  return LargestDifference(
      [&](double t) { return static_cast<double>(polynomial(static_cast<float>(t))); }, function,
      polynomial.interval());
}

// The same polynomial in powers of θ = (u + 1)/2, evaluated in floats. Its coefficients are exact
// to long double: what is lost is lost in the evaluation.
double ThetaError(const Polynomial& polynomial, const Function& function) {
  const auto degree = static_cast<size_t>(polynomial.degree());
  std::vector<long double> shifted(degree + 1);  // of Σ c_k (2θ − 1)^k, by Horner's rule
  for (size_t k = degree + 1; k-- > 0;) {
    for (size_t j = degree; j > 0; --j) shifted[j] = 2 * shifted[j - 1] - shifted[j];
    shifted[0] = static_cast<long double>(polynomial.coefficients()[k]) - shifted[0];
  }
  const Interval interval = polynomial.interval();
  return LargestDifference(
      [&](double t) {
        const auto theta = static_cast<float>((t - interval.low) / (interval.high - interval.low));
        float value = 0;
        for (size_t k = degree + 1; k-- > 0;)
          value = value * theta + static_cast<float>(shifted[k]);
        return static_cast<double>(value);
      },
      function, interval);
}

// The smallest degree with a largest error of at most `error`; 0: none up to the highest.
int SmallestDegree(const Function& function, const Interval& interval, Fit fit, double error) {
  for (int degree = 1; degree <= 40; ++degree) {
    const Polynomial polynomial = FitPolynomial(function, interval, degree, fit);
    if (LargestDifference(polynomial, function, interval) <= error) return degree;
  }
  return 0;
}

// Bernstein's error falls with the degree: bisection, with values in Bernstein's own basis.
int SmallestBernsteinDegree(const Function& function, const Interval& interval, double error) {
  // The error is largest where the curve is: on a coarse grid of places around the middle.
  const auto error_of = [&](int degree) {
    double largest = 0;
    for (int i = -8; i <= 8; ++i) {
      const double t = interval.Middle() + interval.Half() * i / 16;
      largest =
          std::max(largest, std::fabs(BernsteinValue(function, interval, degree, t) - function(t)));
    }
    return largest;
  };
  int low = 0, high = 1;
  while (error_of(high) > error) high *= 2;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (error_of(middle) > error ? low : high) = middle;
  }
  return high;
}

class FitStudy {
 public:
  explicit FitStudy(ExperimentRun& run)
      : run_(run), progress_("fits", std::ssize(kRadii) * std::ssize(kErrors) + 2, run.quiet) {}

  void Run() {
    run_.report.AddText(
        "A feed-forward layer f(Wx) becomes a product of features of W and of x if f is a "
        "polynomial. On [−R, R]: how well polynomials replace activations. Nothing here is "
        "random.");
    CompareDegrees();
    CheckBounds();
    CompareBases();
  }

 private:
  void CompareDegrees() {
    reports::Table table{.title = "Degrees for GELU",
                         .caption =
                             "The smallest degree whose largest error on [−R, R] is at most "
                             "ε.",
                         .columns = {"R", "ε", "bernstein", "chebyshev", "least-squares"},
                         .rows = {}};
    reports::Plot plot{.title = "Error of polynomials for GELU on [−4, 4]",
                       .caption =
                           "Bernstein's error falls like 1/degree, the others' like a power "
                           "of a number below 1.",
                       .x_label = "degree",
                       .y_label = "largest error",
                       .log_y = true,
                       .series = {}};
    std::vector<Comparison> sooner;
    for (const double radius : kRadii) {
      for (const double error : kErrors) {
        const Interval interval{-radius, radius};
        const int bernstein = SmallestBernsteinDegree(Gelu, interval, error),
                  chebyshev = SmallestDegree(Gelu, interval, Fit::kChebyshev, error),
                  least = SmallestDegree(Gelu, interval, Fit::kLeastSquares, error);
        const auto cell = [](int degree) { return degree > 0 ? std::to_string(degree) : "> 40"; };
        table.rows.push_back({fmt::format("{}", radius), fmt::format("{}", error), cell(bernstein),
                              cell(chebyshev), cell(least)});
        run_.results["degrees"].push_back({{"radius", radius},
                                           {"error", error},
                                           {"bernstein", bernstein},
                                           {"chebyshev", chebyshev},
                                           {"least_squares", least}});
        if (chebyshev > 0)
          sooner.push_back({{static_cast<double>(chebyshev)}, static_cast<double>(bernstein)});
        progress_.Update(++done_, "degrees");
      }
    }
    int color = 0;
    for (const Fit fit : {Fit::kBernstein, Fit::kChebyshev, Fit::kLeastSquares}) {
      reports::Series series{.name = std::string(Name(fit)), .points = {}, .color = color++};
      for (int degree = 2; degree <= 24; ++degree)
        series.points.emplace_back(
            degree, LargestDifference(FitPolynomial(Gelu, {-4, 4}, degree, fit), Gelu, {-4, 4}));
      plot.series.push_back(std::move(series));
    }
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
    const double ten = FloatError(FitPolynomial(Gelu, {-4, 4}, 10, Fit::kChebyshev), Gelu);
    run_.results["chebyshev_10"] = ten;
    run_.claims.push_back({.source = "Chebyshev's polynomials",
                           .statement = "degree 10 has an error of at most 0.01 for GELU on [−4, "
                                        "4], in f32",
                           .measured = fmt::format("{:.4f}", ten),
                           .verdict = AllAtMost({{Comparison{{ten}, 0.01}}})});
    run_.claims.push_back(
        {.source = "Bernstein's polynomials",
         .statement = "Chebyshev's need a lower degree for the same error",
         .measured = fmt::format("{} pairs of R and ε; {} instead of {} for R = 4 "
                                 "and ε = 0.001",
                                 sooner.size(), table.rows[5][3], table.rows[5][2]),
         .verdict = AllAtMost(sooner)});
  }

  void CheckBounds() {
    reports::Table table{
        .title = "Bounds on Bernstein's error",
        .caption =
            "The largest error in f32, in powers of u = t/R, next to (b − a)²·sup|f''|/(8n); "
            "for ReLU, which has no second derivative, next to (b − a)/(2√n).",
        .columns = {"function", "R", "degree", "error", "bound"},
        .rows = {}};
    std::vector<Comparison> bounds, printed;
    for (const Activated& one : kActivated) {
      for (const double radius : kRadii) {
        const Interval interval{-radius, radius};
        for (const int degree : kBernsteinDegrees) {
          const double error = FloatError(
              FitPolynomial(one.function, interval, degree, Fit::kBernstein), one.function);
          const double bound = one.largest_second_derivative > 0
                                   ? BernsteinBound(interval, degree, one.largest_second_derivative)
                                   : BernsteinBoundOfSlope(interval, degree, 1);
          bounds.push_back({{error}, bound});
          table.rows.push_back({one.name, fmt::format("{}", radius), std::to_string(degree),
                                fmt::format("{:.5f}", error), fmt::format("{:.5f}", bound)});
          run_.results["bounds"].push_back({{"function", one.name},
                                            {"radius", radius},
                                            {"degree", degree},
                                            {"error", error},
                                            {"bound", bound}});
        }
      }
    }
    // The notes take half of the second derivative.
    const Interval unit{-1, 1};
    const double error =
                     LargestDifference(FitPolynomial(Gelu, unit, 50, Fit::kBernstein), Gelu, unit),
                 bound = BernsteinBound(unit, 50, kGeluCurve);
    printed.push_back({{error}, bound / 2});
    run_.results["printed_bound"] = {{"error", error}, {"bound", bound}};
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "the bound on Bernstein's error",
                           .statement = "the error is at most (b − a)²·sup|f''|/(8n), or (b − "
                                        "a)/(2√n) for slopes up to 1, in f32 up to degree 50",
                           .measured = fmt::format("{} cases", bounds.size()),
                           .verdict = AllAtMost(bounds)});
    run_.claims.push_back({.source = "the notes' bound for GELU, as printed",
                           .statement = "the same with sup|GELU''| = 1/√(2π), half of what it is",
                           .measured = fmt::format("R = 1, n = 50: error {:.5f}, printed bound "
                                                   "{:.5f}, true bound {:.5f}",
                                                   error, bound / 2, bound),
                           .verdict = AllAtMost(printed)});
    progress_.Update(++done_, "bounds");
  }

  void CompareBases() {
    reports::Table table{
        .title = "Which basis floats survive",
        .caption =
            "The largest difference between Bernstein's polynomial for GELU and its value in "
            "f32, in powers of u between −1 and 1 and in powers of θ between 0 and 1; exact "
            "values are those of Bernstein's own basis.",
        .columns = {"R", "degree", "in u", "in θ"},
        .rows = {}};
    std::vector<Comparison> stable, unstable;
    for (const double radius : {4.0, 8.0}) {
      const Interval interval{-radius, radius};
      for (const int degree : kBasisDegrees) {
        const Polynomial polynomial = FitPolynomial(Gelu, interval, degree, Fit::kBernstein);
        const Function exact = [&](double t) { return BernsteinValue(Gelu, interval, degree, t); };
        const double in_u = FloatError(polynomial, exact), in_theta = ThetaError(polynomial, exact);
        stable.push_back({{in_u}, 1e-3});
        unstable.push_back({{in_theta}, 1e-3});
        table.rows.push_back({fmt::format("{}", radius), std::to_string(degree),
                              fmt::format("{:.1e}", in_u), fmt::format("{:.1e}", in_theta)});
        run_.results["bases"].push_back(
            {{"radius", radius}, {"degree", degree}, {"u", in_u}, {"theta", in_theta}});
      }
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "powers of u",
                           .statement = "f32 evaluates Bernstein's polynomial within 0.001 up to "
                                        "degree 50",
                           .measured = fmt::format("{} cases", stable.size()),
                           .verdict = AllAtMost(stable)});
    run_.claims.push_back({.source = "powers of θ, as printed",
                           .statement = "the same in the basis of the notes",
                           .measured = fmt::format("R = 8, degree 32: off by {}", table.rows[9][3]),
                           .verdict = AllAtMost(unstable)});
    progress_.Update(++done_, "bases");
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment FitsExperiment() {
  return {.name = "fits",
          .summary = "polynomials in place of activations: degrees, bounds, and the basis",
          .subject = "Notes on linearised layers",
          .draws = {.quick = 2, .full = 2, .paper = 2},
          .seconds = {.quick = 2, .full = 2, .paper = 2},
          .run = [](ExperimentRun& run) { FitStudy(run).Run(); }};
}

}  // namespace favor::experiments
