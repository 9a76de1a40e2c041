#include "kernels/features.h"

#include <vector>

#include "kernels/project.h"

namespace favor::kernels::reference {
namespace {

// One row as a tile of one lane.
struct Row {
  Row(const HeadFeatures& head, const double* x) : u(static_cast<size_t>(head.omega.features)) {
    reference::Project(head.omega, x, 1, u.data());
    for (double& value : u) value *= head.argument_scale;
    for (int64_t i = 0; i < head.omega.dim; ++i) half_norm += x[i] * x[i] / 2;
    tile = {.features = head.omega.features,
            .lanes = 1,
            .u = u.data(),
            .half_norm = &half_norm,
            .offset = head.offset.data(),
            .epsilon = head.epsilon};
  }

  std::vector<double> u;
  double half_norm = 0;
  MapTile<double> tile;
};

}  // namespace

void Features(const HeadFeatures& head, const double* x, int64_t rows, double* exponents,
              double* factors) {
  for (int64_t row = 0; row < rows; ++row) {
    const Row one(head, x + row * head.omega.dim);
    head.map->evaluate(one.tile, exponents + row * head.Width(), factors + row * head.Width());
  }
}

void FeaturesBackward(const HeadFeatures& head, const double* x, const double* grad_exponents,
                      const double* grad_factors, int64_t rows, double* grad_x) {
  const int64_t d = head.omega.dim, width = head.Width();
  std::vector<double> grad_u(static_cast<size_t>(head.omega.features));
  for (int64_t row = 0; row < rows;
       ++row, x += d, grad_x += d, grad_exponents += width, grad_factors += width) {
    const Row one(head, x);
    head.map->backward(one.tile, grad_exponents, grad_factors, grad_u.data());
    for (double& value : grad_u) value *= head.argument_scale;
    reference::ProjectTranspose(head.omega, grad_u.data(), 1, grad_x);
    double sum = 0;
    for (int64_t r = 0; r < width; ++r) sum += grad_exponents[r];
    for (int64_t i = 0; i < d; ++i) grad_x[i] += head.map->traits->norm_slope * sum * x[i];
  }
}

}  // namespace favor::kernels::reference
