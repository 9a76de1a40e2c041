#include "kernels/project.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/project.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "core/parallel.h"
#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm_types.h"
#include "kernels/cpu/simd/project-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

void ProjectOnTarget(const PackedOmega& packed, const float* x, int64_t rows, float* u) {
  ProjectRows(packed, x, packed.omega.dim, rows, u, PaddedColumns(packed.omega.features));
}

void ProjectTransposeOnTarget(const PackedOmega& packed, const float* grad_u, int64_t rows,
                              float* grad_x) {
  ProjectRowsTranspose(packed, grad_u, packed.omega.features, rows, grad_x,
                       PaddedColumns(packed.omega.dim));
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(ProjectOnTarget);
HWY_EXPORT(ProjectTransposeOnTarget);

namespace {

constexpr int64_t kTaskRows = 64;

// Products need padded rows: they go to a tile first, then to `to` [rows, columns].
template <class Product>
void ThroughTile(const Context& context, int64_t rows, int64_t columns, const Product& product,
                 float* to) {
  const int64_t step = PaddedColumns(columns);
  ParallelForBlocks(context, rows, kTaskRows, [&](int64_t begin, int64_t end) {
    const Scratch<float> tile(context, (end - begin) * step);
    product(begin, end - begin, tile.data());
    for (int64_t row = begin; row < end; ++row)
      std::copy_n(tile.data() + (row - begin) * step, columns, to + row * columns);
  });
}

}  // namespace

void Project(const PackedOmega& packed, const float* x, int64_t rows, const Context& context,
             float* u) {
  ThroughTile(
      context, rows, packed.omega.features,
      [&](int64_t begin, int64_t count, float* tile) {
        HWY_DYNAMIC_DISPATCH(ProjectOnTarget)(packed, x + begin * packed.omega.dim, count, tile);
      },
      u);
}

void ProjectTranspose(const PackedOmega& packed, const float* grad_u, int64_t rows,
                      const Context& context, float* grad_x) {
  ThroughTile(
      context, rows, packed.omega.dim,
      [&](int64_t begin, int64_t count, float* tile) {
        HWY_DYNAMIC_DISPATCH(ProjectTransposeOnTarget)
        (packed, grad_u + begin * packed.omega.features, count, tile);
      },
      grad_x);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
