#include "kernels/features.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "kernels/project.h"

namespace favor::kernels::reference {
namespace {

constexpr int64_t kTaskRows = 64;

// One row as a tile of one lane.
struct Row {
  Row(const HeadFeatures& head, const double* x)
      : u(static_cast<size_t>(head.omega->features)), offset(static_cast<size_t>(head.features)) {
    reference::Project(*head.omega, x, 1, u.data());
    for (double& value : u) value *= head.argument_scale;
    for (int64_t i = 0; i < head.dim; ++i) half_norm += x[i] * x[i] / 2;
    for (size_t r = 0; r < offset.size(); ++r) offset[r] = head.Offset(static_cast<int64_t>(r));
    tile = {.features = head.features,
            .lanes = 1,
            .u = u.data(),
            .half_norm = &half_norm,
            .offset = offset.data(),
            .epsilon = head.epsilon,
            .norm_slope = head.norm_slope};
  }

  std::vector<double> u, offset;
  double half_norm = 0;
  MapTile<double> tile;
};

// Calls body(head, row) in parallel; the row counts over all groups.
template <class Body>
void ForRows(const FeatureConstants& constants, int64_t heads, const ConstView& x,
             const Context& context, const Body& body) {
  const int64_t length = x.size(1);
  ParallelForBlocks(context, x.size(0) * length, kTaskRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(constants.Head(row / length % heads), row);
  });
}

// The row that a row map reads.
std::vector<double> Rotated(const HeadFeatures& head, const double* x) {
  std::vector<double> rotated(x, x + head.dim);
  if (head.omega == nullptr) return rotated;
  rotated.resize(static_cast<size_t>(head.omega->features));
  reference::Project(*head.omega, x, 1, rotated.data());
  return rotated;
}

}  // namespace

void FeaturesOf(const HeadFeatures& head, FeatureRole role, const double* x, double* exponents,
                double* factors) {
  if (head.map->IsRowMap()) {
    if (exponents != nullptr) std::fill_n(exponents, head.width, 0.0);
    head.map->row.evaluate(Rotated(head, x).data(), head.Tables(), factors);
    head.Weigh(role, factors);
    return;
  }
  const Row one(head, x);
  head.map->evaluate(one.tile, exponents, factors);
  head.Weigh(role, factors);
}

void FeatureGradientOf(const HeadFeatures& head, FeatureRole role, const double* x,
                       const double* grad_exponents, const double* grad_factors, double* grad_x) {
  std::vector<double> gradient(grad_factors, grad_factors + head.width);
  head.Weigh(role, gradient.data());
  if (head.map->IsRowMap()) {
    std::vector<double> grad_rotated(static_cast<size_t>(head.polynomial->dim));
    head.map->row.backward(Rotated(head, x).data(), head.Tables(), gradient.data(),
                           grad_rotated.data());
    if (head.omega == nullptr) {
      std::ranges::copy(grad_rotated, grad_x);
    } else {
      reference::ProjectTranspose(*head.omega, grad_rotated.data(), 1, grad_x);
    }
    return;
  }
  std::vector<double> grad_u(static_cast<size_t>(head.omega->features));
  const Row one(head, x);
  head.map->backward(one.tile, grad_exponents, gradient.data(), grad_u.data());
  for (double& value : grad_u) value *= head.argument_scale;
  reference::ProjectTranspose(*head.omega, grad_u.data(), 1, grad_x);
  double sum = 0;
  for (int64_t r = 0; r < head.width; ++r) sum += grad_exponents[r];
  for (int64_t i = 0; i < head.dim; ++i) grad_x[i] += head.norm_slope * sum * x[i];
}

void Features(const FeatureArguments& a, const Context& context) {
  const int64_t d = a.constants.dim(), width = a.constants.width();
  ForRows(a.constants, a.heads, a.x, context, [&](const HeadFeatures& head, int64_t row) {
    FeaturesOf(head, a.role, a.x.Data<double>() + row * d,
               a.exponents.empty() ? nullptr : a.exponents.Data<double>() + row * width,
               a.factors.Data<double>() + row * width);
  });
}

void FeaturesBackward(const FeatureGradients& a, const Context& context) {
  const int64_t d = a.constants.dim(), width = a.constants.width();
  ForRows(a.constants, a.heads, a.x, context, [&](const HeadFeatures& head, int64_t row) {
    FeatureGradientOf(
        head, a.role, a.x.Data<double>() + row * d,
        a.grad_exponents.empty() ? nullptr : a.grad_exponents.Data<double>() + row * width,
        a.grad_factors.Data<double>() + row * width, a.grad_x.Data<double>() + row * d);
  });
}

}  // namespace favor::kernels::reference
