#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "core/error_text.h"
#include "favor/error.h"
#include "favor/linearised.h"
#include "favor/random.h"

namespace favor {

LinearisedFeatures::LinearisedFeatures(const Linearisation& linearisation, uint64_t seed)
    : linearisation_(linearisation) {
  // Sketches of different degrees must be independent: with common ones the variances would not
  // add up.
  const RandomStream seeds(seed, "sketches of degrees");
  for (const auto& [degree, columns] : linearisation_.Parts()) {
    const bool exact = degree == 2 && linearisation_.exact_quadratic;
    const FeatureOptions options{
        .map = exact ? "poly-exact" : "poly-sketch", .features = columns, .degree = degree};
    parts_.push_back({degree, FeaturePlan::Draw(options, 1, linearisation_.FeatureDim(),
                                                seeds.Bits(static_cast<uint64_t>(degree)))});
  }
}

Tensor LinearisedFeatures::OfWeights(ConstView w, const Context& context) const {
  return Compute(w, /*weights=*/true, context);
}

Tensor LinearisedFeatures::OfInputs(ConstView x, const Context& context) const {
  return Compute(x, /*weights=*/false, context);
}

Tensor LinearisedFeatures::Compute(ConstView rows, bool weights, const Context& context) const {
  const Linearisation& plan = linearisation_;
  if (rows.rank() != 2 || rows.size(1) != plan.dim)
    Throw(ErrorCode::kInvalidData, "linearised", "given shape {}, expected [rows, {}]",
          rows.shape().ToString(), plan.dim);
  const Interval interval = plan.polynomial.interval();
  const double scale = weights ? plan.input_norm / interval.Half() : 1 / plan.input_norm;
  const int64_t count = rows.size(0), dim = plan.FeatureDim(), width = plan.Width();
  Tensor scaled({count, dim}, DataType::kF64), features({count, width}, DataType::kF64);
  Copy(rows, scaled.view().Range(1, 0, plan.dim));
  const double last = weights ? -interval.Middle() / plan.constant : plan.constant;
  for (int64_t row = 0; row < count; ++row) {
    double* x = scaled.Data<double>() + row * dim;
    if (plan.constant != 0) x[plan.dim] = last;
    for (int64_t i = 0; i < dim; ++i) x[i] *= scale;
  }
  // c_k stands with the weights.
  const auto factor = [&](int degree) {
    return weights ? plan.polynomial.coefficients()[static_cast<size_t>(degree)] : 1;
  };
  for (int64_t row = 0; row < count; ++row) {
    double* to = features.Data<double>() + row * width;
    const double* x = scaled.Data<double>() + row * dim;
    *to++ = factor(0);
    for (int64_t i = 0; i < dim; ++i) to[i] = factor(1) * x[i];
  }
  int64_t first = 1 + dim;
  for (const Part& part : parts_) {
    const Tensor phi = Features(part.plan, scaled, context);
    const int64_t columns = part.plan.width();
    for (int64_t i = 0; i < count * columns; ++i)
      features.Data<double>()[i / columns * width + first + i % columns] =
          factor(part.degree) * phi.Data<double>()[i];
    first += columns;
  }
  return features;
}

double LinearisedFeatures::Variance(std::span<const double> w, std::span<const double> x) const {
  const Linearisation& plan = linearisation_;
  const Interval interval = plan.polynomial.interval();
  std::vector<double> left(w.begin(), w.end()), right(x.begin(), x.end());
  if (plan.constant != 0) {
    left.push_back(-interval.Middle() / plan.constant);
    right.push_back(plan.constant);
  }
  for (double& value : left) value *= plan.input_norm / interval.Half();
  for (double& value : right) value /= plan.input_norm;
  double variance = 0;
  for (const Part& part : parts_)
    variance += std::pow(plan.polynomial.coefficients()[static_cast<size_t>(part.degree)], 2) *
                part.plan.ExpectedMse(left, right).value_or(0);
  return variance;
}

}  // namespace favor
