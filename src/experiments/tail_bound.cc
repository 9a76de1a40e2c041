#include "experiments/tail_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace favor::experiments {
namespace {

// The law of X as values with weights: u = cos t with a density proportional to sin^{d−2} t, by the
// midpoint rule.
class TermLaw {
 public:
  TermLaw(int64_t dim, const std::function<double(double)>& term) {
    if (dim == 1) {
      for (const double u : {-1.0, 1.0}) Add(term(u), std::log(0.5));
      return;
    }
    constexpr int kNodes = 20000;
    double sum = 0;
    for (int i = 0; i < kNodes; ++i) {
      const double t = std::numbers::pi * (i + 0.5) / kNodes;
      const double log_weight = static_cast<double>(dim - 2) * std::log(std::sin(t));
      Add(term(std::cos(t)), log_weight);
      sum += std::exp(log_weight);
    }
    for (double& log_weight : log_weights_) log_weight -= std::log(sum);
  }

  double LogMoment(double theta) const { return Tilted(theta).log_moment; }
  // E X e^{θX}/E e^{θX}: grows with θ.
  double TiltedMean(double theta) const { return Tilted(theta).mean; }

 private:
  struct Tilt {
    double log_moment, mean;
  };

  void Add(double value, double log_weight) {
    values_.push_back(value);
    log_weights_.push_back(log_weight);
  }

  Tilt Tilted(double theta) const {
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < values_.size(); ++i)
      most = std::max(most, theta * values_[i] + log_weights_[i]);
    double sum = 0, first = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      const double weight = std::exp(theta * values_[i] + log_weights_[i] - most);
      sum += weight;
      first += weight * values_[i];
    }
    return {.log_moment = most + std::log(sum), .mean = first / sum};
  }

  std::vector<double> values_, log_weights_;
};

}  // namespace

LegendreTransform TransformOf(int64_t dim, const std::function<double(double)>& term,
                              double level) {
  if (level >= std::max(term(1), term(-1)))
    return {.rate = std::numeric_limits<double>::infinity()};
  const TermLaw law(dim, term);
  constexpr double kLargest = 1e9;  // the bound no longer changes in double precision
  double low = 0, high = 1;
  while (law.TiltedMean(high) < level && high < kLargest) high *= 2;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (law.TiltedMean(middle) < level ? low : high) = middle;
  }
  const double theta = (low + high) / 2, log_moment = law.LogMoment(theta);
  return {.rate = theta * level - log_moment, .theta = theta, .log_moment = log_moment};
}

double ChernoffBound(const LegendreTransform& transform, int64_t features) {
  return std::exp(-static_cast<double>(features) * transform.rate);
}

double OrthogonalShare(const LegendreTransform& transform, int64_t dim, int64_t features,
                       double at_zero) {
  const auto d = static_cast<double>(dim), m = static_cast<double>(features);
  const double constant = transform.theta * at_zero;  // of one row
  const double alone = 1 + m * std::expm1(transform.log_moment - constant);
  const double share =
      std::min(1.0, std::exp(m * constant - m * transform.log_moment + std::log(alone)));
  return d / (d + 2) + 2 / (d + 2) * share;
}

}  // namespace favor::experiments
