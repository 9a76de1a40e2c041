// Hidden units of a feed-forward layer as products of features: f(w·x) ≈ Φ(w)·Ψ(x), so that the
// layer W₂f(W₁x) is (W₂Φ(W₁))Ψ(x), whose cost grows with the columns of Ψ and not with the units.
//
// f becomes a polynomial Σ_k c_k u^k with u = (w·x − middle)/half, and u^k = (ŵ·x̂)^k a product of
// features: of degrees 0 and 1 exactly, by x itself, of higher ones by random columns (the map
// poly-sketch, drawn for each degree on its own), of degree 2 also exactly (poly-exact).
//
//   const favor::UnitInputs inputs = favor::RandomInputs(/*dim=*/16, /*weight_norm=*/1, 4);
//   const favor::Linearisation plan =
//       favor::LineariseForColumns(f, inputs, {.degree = 2, .columns = 1024});
//   plan.Text();      // errors, cost, and whether a straight line does better
//   const favor::LinearisedFeatures features(plan, /*seed=*/0);
//   features.OfWeights(w, context);   // [units, plan.Width()]: Φ
//   features.OfInputs(x, context);    // [rows, plan.Width()]: Ψ
#ifndef FAVOR_LINEARISED_H_
#define FAVOR_LINEARISED_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "favor/context.h"
#include "favor/features.h"
#include "favor/polynomial.h"
#include "favor/tensor.h"

namespace favor {

// What hidden units meet: the lengths of w and x, and values of w·x, each as likely as the others.
struct UnitInputs {
  int64_t dim = 1;  // elements of w and of x
  double weight_norm = 1, input_norm = 1;
  std::vector<double> values;
};
// Of vectors whose directions are random: w·x is ‖w‖‖x‖ times a coordinate of a uniform unit vector
// in `dim` dimensions; its quantiles.
UnitInputs RandomInputs(int64_t dim, double weight_norm, double input_norm);

// Mean squares.
struct LinearisedErrors {
  double bias = 0;      // of the polynomial less f
  double variance = 0;  // of the random columns
  double linear = 0;    // of the best straight line less f: what needs no features at all
};

struct Linearisation {
  static constexpr int kMaxDegree = 16;
  static constexpr int64_t kMaxColumns = FeaturePlan::kMaxRowWidth;  // of one degree

  int64_t dim = 1;
  Polynomial polynomial;
  std::vector<int64_t>
      columns;  // random columns of each degree, [degree + 1]; 0: exact, or c_k = 0
  bool exact_quadratic = false;
  double input_norm = 1;  // x̂ = x/input_norm, and ŵ = w·input_norm/half
  // A middle other than 0 is a product too: x gets this as another coordinate, w −middle over this.
  // 0: there is none.
  double constant = 0;
  LinearisedErrors errors;

  int64_t FeatureDim() const { return dim + (constant != 0 ? 1 : 0); }
  // What comes from each degree above 1.
  struct Part {
    int degree;
    int64_t columns;
  };
  std::vector<Part> Parts() const;
  int64_t Width() const;  // columns of Φ and Ψ
  // Operations per token with `outputs` outputs of the layer, features included, and those of the
  // layer with `units` hidden units that it replaces.
  double Flops(int64_t outputs) const;
  double DenseFlops(int64_t units, int64_t outputs) const;

  // Whether it is better than a straight line.
  bool IsUsable() const { return errors.bias + errors.variance < errors.linear; }
  std::string Text() const;
};

struct LinearisedOptions {
  int degree = 2;
  int64_t columns = 0;  // random columns of all degrees together
  bool exact_quadratic = false;
  std::optional<Fit> fit;            // none: least squares over the values of the inputs
  std::optional<Interval> interval;  // of the fit; none: the range of the values
};
// The smallest variance that so many columns give. Errors are means over the inputs, of one unit.
// Throws kInvalidOption for fewer columns than there are random degrees, for a degree below 1 and
// for an interval that is not one, kInvalidData if the function is not finite there.
Linearisation LineariseForColumns(const Function& function, const UnitInputs& inputs,
                                  const LinearisedOptions& options);

struct LinearisedTarget {
  double error = 0;  // the most that bias and variance of all units may be together
  int64_t units = 1;
  int64_t dim = 1;
  Interval interval;                       // of every w·x
  double weight_norm = 1, input_norm = 1;  // the largest
  Fit fit = Fit::kChebyshev;
};
// The lowest degree whose bias is at most half of the error, and the fewest columns whose variance
// is at most the other half, for whatever w and x there are within these bounds. Errors are bounds
// of the sum over the units. Throws likewise, and kInvalidOption if no degree is high enough.
Linearisation LineariseForError(const Function& function, const LinearisedTarget& target);

// Columns of each degree if one column of degree k has the variance costs[k] and m columns have
// costs[k]/m; 0 columns for a cost of 0.
// The smallest sum of variances by `total` columns; throws kInvalidOption if they are too few.
std::vector<int64_t> ColumnsForTotal(std::span<const double> costs, int64_t total);
// The fewest columns with a sum of at most `variance`, up to rounding:
// m_k = ⌈√costs[k]·Σ_j √costs[j]/variance⌉.
std::vector<int64_t> ColumnsForVariance(std::span<const double> costs, double variance);

// m·E[(φ(x)·φ(y) − (x·y)^k)²] of m columns of poly-sketch, m large, for squared norms a = ‖x‖²‖y‖²,
// the squared product c2 = (x·y)² and S2 = Σ_i x_i²y_i²; and its largest value, (3^k − 1)a^k.
struct SketchPair {
  double a = 1, c2 = 1, s2 = 0;
};
double SketchVariance(const SketchPair& pair, int degree);
double LargestSketchVariance(double a, int degree);

// The features of a linearisation, drawn: a pure function of it and the seed.
class LinearisedFeatures {
 public:
  LinearisedFeatures(const Linearisation& linearisation, uint64_t seed);

  const Linearisation& linearisation() const { return linearisation_; }
  // [rows, dim] → f64 [rows, Width()]: E[Φ(w)·Ψ(x)] is the polynomial at w·x.
  Tensor OfWeights(ConstView w, const Context& context) const;
  Tensor OfInputs(ConstView x, const Context& context) const;
  // E[(Φ(w)·Ψ(x) − polynomial)²] over draws: exact.
  double Variance(std::span<const double> w, std::span<const double> x) const;

  // The columns that come from one degree above 1, in the order of Linearisation::Parts.
  struct Part {
    int degree;
    FeaturePlan plan;  // of FeatureDim() elements
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  Tensor Compute(ConstView rows, bool weights, const Context& context) const;

  Linearisation linearisation_;
  std::vector<Part> parts_;
};

}  // namespace favor

#endif  // FAVOR_LINEARISED_H_
