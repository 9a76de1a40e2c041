// Polynomials that stand in for a function on an interval: what a feed-forward layer must become
// before it can be written as a product of features.
//
//   const favor::Polynomial p =
//       favor::FitPolynomial([](double t) { return std::tanh(t); }, {-4, 4}, 10,
//       favor::Fit::kChebyshev);
//   p(0.5);
#ifndef FAVOR_POLYNOMIAL_H_
#define FAVOR_POLYNOMIAL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "favor/names.h"

namespace favor {

enum class Fit : uint8_t {
  kBernstein,     // Bernstein's polynomial: its error falls like 1/degree, and no faster
  kChebyshev,     // interpolation at Chebyshev's nodes: nearly the smallest largest error
  kLeastSquares,  // the smallest mean square over the interval
};
template <>
inline constexpr auto kNamesOf<Fit> = std::to_array<std::string_view>({"bernstein", "chebyshev",
                                                                       "least-squares"});

struct Interval {
  double low = -1, high = 1;

  double Middle() const { return low + (high - low) / 2; }
  double Half() const { return (high - low) / 2; }
};

// Σ_k c_k u^k with u = (t − middle)/half between −1 and 1. In powers of (t − low)/(high − low), as
// Bernstein's polynomials are usually written, floats lose all digits from degree 32 on.
class Polynomial {
 public:
  static constexpr int kMaxDegree = 64;

  // Throws kInvalidOption for an interval that is not one, and for no or too many coefficients.
  Polynomial(const Interval& interval, std::vector<double> coefficients);

  const Interval& interval() const { return interval_; }
  int degree() const { return static_cast<int>(coefficients_.size()) - 1; }
  const std::vector<double>& coefficients() const { return coefficients_; }

  // Horner's rule, in the type of t.
  template <class T>
  T operator()(T t) const {
    const T u = (t - static_cast<T>(interval_.Middle())) / static_cast<T>(interval_.Half());
    T value = 0;
    for (auto c = coefficients_.rbegin(); c != coefficients_.rend(); ++c)
      value = value * u + static_cast<T>(*c);
    return value;
  }

 private:
  Interval interval_;
  std::vector<double> coefficients_;
};

using Function = std::function<double(double)>;

// Throws kInvalidOption for a degree outside 1 … Polynomial::kMaxDegree or an interval that is not
// one, kInvalidData if the function is not finite somewhere on it.
Polynomial FitPolynomial(const Function& function, const Interval& interval, int degree, Fit fit);

// Least squares over given values, each with the same weight, on their range. Throws likewise, and
// kInvalidData for fewer than degree + 1 different values.
Polynomial FitToValues(const Function& function, std::span<const double> values, int degree);

// Bernstein's polynomial of any degree, summed in its own basis: stable where powers are not.
double BernsteinValue(const Function& function, const Interval& interval, int degree, double t);

// The largest difference of two functions on 4097 points of an interval, ends included.
double LargestDifference(const Function& a, const Function& b, const Interval& interval);

// What is known of the error of Bernstein's polynomial of a degree: (b − a)²·sup|f''|/(8n), and for
// functions without a second derivative, such as ReLU, L(b − a)/(2√n) with |f(s) − f(t)| ≤ L|s −
// t|.
double BernsteinBound(const Interval& interval, int degree, double largest_second_derivative);
double BernsteinBoundOfSlope(const Interval& interval, int degree, double largest_slope);

}  // namespace favor

#endif  // FAVOR_POLYNOMIAL_H_
