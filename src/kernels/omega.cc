#include "kernels/omega.h"

#include <utility>

#include "kernels/cpu/simd/gemm_types.h"

namespace favor::kernels {

void Omega::SetDense(std::vector<double> values) {
  dense = std::move(values);
  const int64_t row_step = cpu::RowStep(dim), column_step = cpu::RowStep(features);
  rows_f32.assign(static_cast<size_t>(features * row_step), 0.0f);
  columns_f32.assign(static_cast<size_t>(dim * column_step), 0.0f);
  for (int64_t r = 0; r < features; ++r) {
    for (int64_t i = 0; i < dim; ++i) {
      const auto value = static_cast<float>(dense[static_cast<size_t>(r * dim + i)]);
      rows_f32[static_cast<size_t>(r * row_step + i)] = value;
      columns_f32[static_cast<size_t>(i * column_step + r)] = value;
    }
  }
}

}  // namespace favor::kernels
