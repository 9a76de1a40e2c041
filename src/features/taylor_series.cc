#include "favor/taylor_series.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "core/error_text.h"
#include "favor/error.h"

namespace favor {
namespace {

constexpr std::string_view kWho = "taylor series";

void CheckTerms(int terms) {
  if (terms < 1 || terms > 1000)
    Throw(ErrorCode::kInvalidOption, kWho, "given {} terms, expected 1 to 1000", terms);
}

// Coefficients of t, t³, t⁵, … of tanh, from its equation y' = 1 − y².
std::vector<double> TanhCoefficients(int terms) {
  std::vector<double> a;
  for (int n = 0; n < terms; ++n) {
    double square = 0;  // of t^{2n} in y²
    for (int i = 0; i < n; ++i)
      square += a[static_cast<size_t>(i)] * a[static_cast<size_t>(n - 1 - i)];
    a.push_back(((n == 0 ? 1 : 0) - square) / (2 * n + 1));
  }
  return a;
}

}  // namespace

double PowerSeries::operator()(double t) const {
  double sum = 0;
  for (size_t k = 0; k < terms(); ++k) sum += coefficients[k] * std::pow(t, powers[k]);
  return sum;
}

double PowerSeries::SumOfSizes(double t) const {
  double sum = 0;
  for (size_t k = 0; k < terms(); ++k) sum += std::fabs(coefficients[k] * std::pow(t, powers[k]));
  return sum;
}

PowerSeries GeluSeries(int terms) {
  CheckTerms(terms);
  PowerSeries series{.powers = {1}, .coefficients = {0.5}};
  double factor = 1 / std::sqrt(2 * std::numbers::pi);  // (−1)^j/(√(2π) 2^j j!)
  for (int j = 0; j + 1 < terms; ++j) {
    series.powers.push_back(2 * j + 2);
    series.coefficients.push_back(factor / (2 * j + 1));
    factor /= -2.0 * (j + 1);
    if (factor == 0) break;
  }
  return series;
}

PowerSeries TanhSeries(int terms) {
  CheckTerms(terms);
  PowerSeries series{.powers = {}, .coefficients = TanhCoefficients(terms)};
  for (int n = 0; n < terms; ++n) series.powers.push_back(2 * n + 1);
  return series;
}

// (1 + tanh(t/2))/2
PowerSeries SigmoidSeries(int terms) {
  CheckTerms(terms);
  PowerSeries series{.powers = {0}, .coefficients = {0.5}};
  const std::vector<double> tanh = TanhCoefficients(terms - 1);
  for (int n = 0; n + 1 < terms; ++n) {
    series.powers.push_back(2 * n + 1);
    series.coefficients.push_back(std::ldexp(tanh[static_cast<size_t>(n)], -2 * n - 2));
  }
  return series;
}

std::vector<double> GeometricLaw(double rho, size_t terms) {
  if (!(rho > 0 && rho < 1))
    Throw(ErrorCode::kInvalidOption, kWho, "given ρ = {}, expected a number between 0 and 1", rho);
  std::vector<double> law;
  for (size_t k = 0; k < terms; ++k)
    law.push_back((k + 1 < terms ? rho : 1) * std::pow(1 - rho, static_cast<double>(k)));
  return law;
}

std::vector<double> PoissonLaw(double lambda, size_t terms) {
  if (!(lambda > 0 && std::isfinite(lambda)))
    Throw(ErrorCode::kInvalidOption, kWho, "given λ = {}, expected a positive number", lambda);
  const auto probability = [&](double j) {
    return std::exp(j * std::log(lambda) - lambda - std::lgamma(j + 1));
  };
  std::vector<double> law;
  for (size_t k = 0; k < terms; ++k) law.push_back(probability(static_cast<double>(k)));
  // The rest is summed up: as a difference from 1 it would be rounding.
  for (double j = static_cast<double>(terms); !law.empty(); ++j) {
    law.back() += probability(j);
    if (j > lambda && probability(j) <= 1e-17 * law.back()) break;
  }
  return law;
}

PowerMoments ExactPowers(const PowerSeries& series, double t) {
  PowerMoments moments{.means = {}, .variances = std::vector<double>(series.terms())};
  for (const int power : series.powers) moments.means.push_back(std::pow(t, power));
  return moments;
}

std::vector<double> OptimalLaw(const PowerSeries& series, const PowerMoments& powers) {
  std::vector<double> law;
  for (size_t k = 0; k < powers.means.size(); ++k)
    law.push_back(std::fabs(series.coefficients[k]) *
                  std::sqrt(powers.means[k] * powers.means[k] + powers.variances[k]));
  const double sum = std::accumulate(law.begin(), law.end(), 0.0);
  for (double& p : law) p /= sum;
  return law;
}

SeriesEstimator::SeriesEstimator(const PowerSeries& series, std::vector<double> law, size_t head,
                                 bool all_before)
    : series_(series),
      head_(head),
      all_before_(all_before),
      law_(std::move(law)),
      reached_(law_.size()) {
  const double sum = std::accumulate(law_.begin(), law_.end(), 0.0);
  const bool positive = std::ranges::all_of(law_, [](double p) { return p > 0; });
  if (head_ + law_.size() != series_.terms() || law_.empty() || !positive ||
      !(std::fabs(sum - 1) < 1e-9))
    Throw(ErrorCode::kInvalidOption, kWho,
          "given {} probabilities with the sum {}, expected a positive one for each of {} terms",
          law_.size(), sum, series_.terms() - head_);
  double rest = 0;
  for (size_t k = law_.size(); k-- > 0;) reached_[k] = rest += law_[k];
}

SeriesEstimator SeriesEstimator::SingleTerm(const PowerSeries& series, std::vector<double> law) {
  return {series, std::move(law), 0, false};
}

SeriesEstimator SeriesEstimator::Roulette(const PowerSeries& series, double survival) {
  return {series, GeometricLaw(1 - survival, series.terms()), 0, true};
}

SeriesEstimator SeriesEstimator::HeadAndTail(const PowerSeries& series, size_t head,
                                             std::vector<double> law) {
  return {series, std::move(law), head, false};
}

double SeriesEstimator::Divisor(size_t outcome, size_t term) const {
  if (term < head_) return 1;
  if (all_before_) return term <= outcome ? reached_[term - head_] : 0;
  return term == outcome ? law_[term - head_] : 0;
}

double SeriesEstimator::Draw(double uniform,
                             const std::function<double(int power)>& estimate) const {
  size_t outcome = head_;
  while (outcome + 1 < series_.terms() && uniform >= law_[outcome - head_])
    uniform -= law_[outcome++ - head_];
  double sum = 0;
  for (size_t k = 0; k <= outcome; ++k) {
    if (const double divisor = Divisor(outcome, k); divisor > 0)
      sum += series_.coefficients[k] / divisor * estimate(series_.powers[k]);
  }
  return sum;
}

double SeriesEstimator::Mean(const PowerMoments& powers) const {
  double mean = 0;
  for (size_t outcome = head_; outcome < series_.terms(); ++outcome) {
    for (size_t k = 0; k <= outcome; ++k) {
      if (const double divisor = Divisor(outcome, k); divisor > 0)
        mean += law_[outcome - head_] * series_.coefficients[k] / divisor * powers.means[k];
    }
  }
  return mean;
}

double SeriesEstimator::SecondMoment(const PowerMoments& powers) const {
  double second = 0;
  for (size_t outcome = head_; outcome < series_.terms(); ++outcome) {
    double value = 0, variance = 0;
    for (size_t k = 0; k <= outcome; ++k) {
      const double divisor = Divisor(outcome, k);
      if (divisor == 0) continue;
      const double weight = series_.coefficients[k] / divisor;
      value += weight * powers.means[k];
      variance += weight * weight * powers.variances[k];
    }
    second += law_[outcome - head_] * (value * value + variance);
  }
  return second;
}

double SeriesEstimator::ExpectedTerms() const {
  if (!all_before_) return static_cast<double>(head_) + 1;
  return std::accumulate(reached_.begin(), reached_.end(), 0.0);
}

}  // namespace favor
