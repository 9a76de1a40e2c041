#include "kernels/project.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace favor::kernels::reference {
namespace {

// y ← stage·y, or stageᵀ·y.
void ApplyStage(const OmegaStage& stage, const std::vector<float>& parameters, bool transpose,
                std::vector<double>& y) {
  const size_t n = y.size();
  const float* p = parameters.data() + stage.first_parameter;
  switch (stage.factor) {
    case OmegaStage::Factor::kSigns:
      for (size_t i = 0; i < n; ++i) y[i] *= p[i];
      break;
    case OmegaStage::Factor::kHadamard: {
      const std::vector<double> x = y;
      for (size_t i = 0; i < n; ++i) {
        y[i] = 0;
        for (size_t j = 0; j < n; ++j) y[i] += std::popcount(i & j) % 2 == 0 ? x[j] : -x[j];
      }
      break;
    }
    case OmegaStage::Factor::kRotations: {
      const auto stride = static_cast<size_t>(stage.stride);
      for (size_t i = 0; i < n; ++i) {
        if ((i & stride) != 0) continue;
        const double cosine = *p++, sine = transpose ? -static_cast<double>(*p) : *p;
        ++p;
        const double a = y[i], b = y[i + stride];
        y[i] = cosine * a - sine * b;
        y[i + stride] = sine * a + cosine * b;
      }
      break;
    }
  }
}

}  // namespace

void Project(const Omega& omega, const double* x, int64_t rows, double* u) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  for (int64_t row = 0; row < rows; ++row, x += d, u += m) {
    if (omega.IsDense()) {
      for (int64_t r = 0; r < m; ++r) {
        u[r] = 0;
        for (int64_t i = 0; i < d; ++i) u[r] += x[i] * omega.dense[static_cast<size_t>(r * d + i)];
      }
      continue;
    }
    for (int64_t first = 0; first < m; first += n) {
      std::vector<double> y(static_cast<size_t>(n), 0.0);
      std::copy_n(x, d, y.begin());
      const auto& parameters = omega.block_parameters[static_cast<size_t>(first / n)];
      for (const OmegaStage& stage : omega.stages) ApplyStage(stage, parameters, false, y);
      for (int64_t r = first; r < std::min(m, first + n); ++r) {
        u[r] = y[static_cast<size_t>(r - first)] * omega.row_scale[static_cast<size_t>(r)];
      }
    }
  }
}

void ProjectTranspose(const Omega& omega, const double* grad_u, int64_t rows, double* grad_x) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  for (int64_t row = 0; row < rows; ++row, grad_u += m, grad_x += d) {
    std::fill_n(grad_x, d, 0.0);
    if (omega.IsDense()) {
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t i = 0; i < d; ++i)
          grad_x[i] += grad_u[r] * omega.dense[static_cast<size_t>(r * d + i)];
      }
      continue;
    }
    for (int64_t first = 0; first < m; first += n) {
      std::vector<double> y(static_cast<size_t>(n), 0.0);
      for (int64_t r = first; r < std::min(m, first + n); ++r) {
        y[static_cast<size_t>(r - first)] = grad_u[r] * omega.row_scale[static_cast<size_t>(r)];
      }
      const auto& parameters = omega.block_parameters[static_cast<size_t>(first / n)];
      for (auto stage = omega.stages.rbegin(); stage != omega.stages.rend(); ++stage) {
        ApplyStage(*stage, parameters, true, y);
      }
      for (int64_t i = 0; i < d; ++i) grad_x[i] += y[static_cast<size_t>(i)];
    }
  }
}

std::vector<double> DenseRows(const Omega& omega) {
  if (omega.IsDense()) return omega.dense;
  const auto m = static_cast<size_t>(omega.features), d = static_cast<size_t>(omega.dim);
  std::vector<double> rows(m * d), unit(d, 0.0), column(m);
  for (size_t i = 0; i < d; ++i) {
    unit[i] = 1;
    Project(omega, unit.data(), 1, column.data());
    unit[i] = 0;
    for (size_t r = 0; r < m; ++r) rows[r * d + i] = column[r];
  }
  return rows;
}

}  // namespace favor::kernels::reference
