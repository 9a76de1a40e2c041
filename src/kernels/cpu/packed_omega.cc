#include "kernels/cpu/packed_omega.h"

#include "kernels/cpu/simd/gemm_types.h"

namespace favor::kernels::cpu {

PackedOmega::PackedOmega(const Omega& from) : omega(from) {
  if (!omega.IsDense()) return;
  const int64_t m = omega.features, d = omega.dim, row_step = RowStep(d), column_step = RowStep(m);
  rows.assign(static_cast<size_t>(m * row_step), 0.0f);
  columns.assign(static_cast<size_t>(d * column_step), 0.0f);
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t i = 0; i < d; ++i) {
      const auto value = static_cast<float>(omega.dense[static_cast<size_t>(r * d + i)]);
      rows[static_cast<size_t>(r * row_step + i)] = value;
      columns[static_cast<size_t>(i * column_step + r)] = value;
    }
  }
}

}  // namespace favor::kernels::cpu
