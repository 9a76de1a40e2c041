#include "experiments/published_columns.h"

#include <cmath>
#include <numeric>

namespace favor::experiments {

int64_t PublishedColumns::Total() const {
  return std::accumulate(columns.begin(), columns.end(), int64_t{0});
}

PublishedColumns PublishedAlgorithm(const Function& function, const PublishedTarget& target) {
  const auto units = static_cast<double>(target.units);
  const double bound = BernsteinBound(target.interval, 1, target.largest_second_derivative);
  const auto degree = static_cast<int>(std::ceil(std::sqrt(units / target.error) * bound));
  PublishedColumns published{
      .polynomial = FitPolynomial(function, target.interval, degree, Fit::kBernstein),
      .columns = {0}};
  for (int k = 1; k <= degree; ++k) {
    const double c = published.polynomial.coefficients()[static_cast<size_t>(k)];
    published.columns.push_back(
        static_cast<int64_t>(std::ceil(degree * units * c * c / target.error)));
  }
  return published;
}

}  // namespace favor::experiments
