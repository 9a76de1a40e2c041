// Estimates of f(t) = Σ_k a_k t^k without bias from a few terms of the series, drawn at random:
// what a feed-forward layer needs if t^k is itself only estimated, by features. (Deterministic
// polynomials, favor/polynomial.h, have a far smaller error unless |t| is below 1.)
//
//   const favor::PowerSeries series = favor::GeluSeries(40);
//   const auto estimator = favor::SeriesEstimator::Roulette(series, /*survival=*/5.0 / 6);
//   estimator.Draw(uniform, [&](int power) { return std::pow(t, power); });
//   estimator.SecondMoment(favor::ExactPowers(series, t));
#ifndef FAVOR_TAYLOR_SERIES_H_
#define FAVOR_TAYLOR_SERIES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace favor {

// The terms of a power series whose coefficients are not 0, in order of their powers.
struct PowerSeries {
  std::vector<int> powers;
  std::vector<double> coefficients;

  size_t terms() const { return powers.size(); }
  double operator()(double t) const;
  double SumOfSizes(double t) const;  // Σ|a_k||t|^k: without bias, no estimate has a smaller root
                                      // mean square than this if it draws a single term
};

// t·Φ(t): a_1 = 1/2, a_{2j+2} = (−1)^j/(√(2π)(2j + 1)2^j j!). Converges everywhere.
PowerSeries GeluSeries(int terms);
PowerSeries TanhSeries(int terms);     // converges for |t| < π/2
PowerSeries SigmoidSeries(int terms);  // 1/(1 + e^{−t}); converges for |t| < π

// Probabilities of `terms` terms, term 0 first; the last term takes what is left.
// p_j = ρ(1 − ρ)^j, so that the mean of j is 1/ρ − 1.
std::vector<double> GeometricLaw(double rho, size_t terms);
// p_j = e^{−λ}λ^j/j!.
std::vector<double> PoissonLaw(double lambda, size_t terms);

// Independent estimates û_k of powers of t, one for each term of a series: E û_k = t^k and the
// variance of û_k, 0 if powers are exact.
struct PowerMoments {
  std::vector<double> means, variances;
};
PowerMoments ExactPowers(const PowerSeries& series, double t);

// p_k ∝ |a_k|√(E û_k²): the smallest second moment of a single term.
std::vector<double> OptimalLaw(const PowerSeries& series, const PowerMoments& powers);

// With probability p_K, outcome K: Σ_k weight_Kk a_k û_k, with weights whose mean over K is 1.
class SeriesEstimator {
 public:
  // One term, K, divided by its probability.
  static SeriesEstimator SingleTerm(const PowerSeries& series, std::vector<double> law);
  // Terms 0 … K, each divided by the probability that it is reached: survival^k.
  static SeriesEstimator Roulette(const PowerSeries& series, double survival);
  // The first `head` terms, and one of the others divided by its probability; `law` is of the
  // others.
  static SeriesEstimator HeadAndTail(const PowerSeries& series, size_t head,
                                     std::vector<double> law);

  // An estimate from a uniform number in [0, 1); estimate(power) is û of that power.
  double Draw(double uniform, const std::function<double(int power)>& estimate) const;
  // E f̂ and E f̂², exactly: Σ_K p_K ((Σ_k weight_Kk a_k t^k)² + Σ_k (weight_Kk a_k)² Var û_k).
  double Mean(const PowerMoments& powers) const;
  double SecondMoment(const PowerMoments& powers) const;
  double ExpectedTerms() const;  // powers that an estimate needs, on average

 private:
  // Throws kInvalidOption unless the law is one, with a positive probability for every outcome.
  SeriesEstimator(const PowerSeries& series, std::vector<double> law, size_t head, bool all_before);

  // Term k of outcome K counts 1/divisor; 0: it does not take part.
  double Divisor(size_t outcome, size_t term) const;

  PowerSeries series_;
  size_t head_;                  // terms that every outcome has
  bool all_before_;              // outcome K has the terms up to K; otherwise the head and K alone
  std::vector<double> law_;      // of outcomes head, head + 1, …
  std::vector<double> reached_;  // probability that the outcome is at least head, head + 1, …
};

}  // namespace favor

#endif  // FAVOR_TAYLOR_SERIES_H_
