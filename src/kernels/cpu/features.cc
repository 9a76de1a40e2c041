#include "kernels/features.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/features.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/features-inl.h"
#include "kernels/cpu/simd/project-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

void FeaturesOnTarget(const HeadFeatures& head, const float* x, int64_t count,
                      const Context& context, float* exponents, float* factors) {
  const int64_t m = head.omega.features, width = head.Width();
  FeaturePanel panel(head, count, /*backward=*/false, context);
  panel.Compute(ConstView(x, {count, head.omega.dim}), 0, count, nullptr, 1, nullptr);
  for (int64_t row = 0; row < count; ++row, exponents += width, factors += width) {
    const auto norm = static_cast<float>(panel.NormTerm(row));
    for (int64_t r = 0; r < width; ++r)
      exponents[r] = panel.Exponents(row)[r] + norm + head.offset_f32[static_cast<size_t>(r % m)];
    if (head.map->traits->has_factor) {
      std::copy_n(panel.Factors(row), width, factors);
    } else {
      std::fill_n(factors, width, 1.0f);
    }
  }
}

void FeaturesBackwardOnTarget(const HeadFeatures& head, const float* x, int64_t count,
                              const float* grad_exponents, const float* grad_factors,
                              const Context& context, float* grad_x) {
  const int64_t d = head.omega.dim, m = head.omega.features, width = head.Width();
  const int64_t u_step = RowStep(m), x_step = RowStep(d);
  FeaturePanel panel(head, count, /*backward=*/false, context);
  panel.Compute(ConstView(x, {count, d}), 0, count, nullptr, 1, nullptr);
  const Scratch<float> memory(context, count * (u_step + x_step));
  float *grad_u = memory.data(), *tile = grad_u + count * u_step;
  const auto scale = static_cast<float>(head.argument_scale);
  for (int64_t row = 0; row < count; ++row) {
    RowsOf(*head.map).backward(m, static_cast<float>(head.epsilon), panel.U(row),
                               grad_exponents + row * width, grad_factors + row * width,
                               grad_u + row * u_step);
    for (int64_t r = 0; r < m; ++r) grad_u[row * u_step + r] *= scale;
  }
  ProjectRowsTranspose(head.omega, grad_u, u_step, count, tile, x_step);
  const auto slope = static_cast<float>(head.map->traits->norm_slope);
  for (int64_t row = 0; row < count; ++row) {
    float sum = 0;
    for (int64_t r = 0; r < width; ++r) sum += grad_exponents[row * width + r];
    for (int64_t i = 0; i < d; ++i)
      grad_x[row * d + i] = tile[row * x_step + i] + slope * sum * x[row * d + i];
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(FeaturesOnTarget);
HWY_EXPORT(FeaturesBackwardOnTarget);

namespace {
constexpr int64_t kTaskRows = 64;
}

void Features(const HeadFeatures& head, const float* x, int64_t rows, const Context& context,
              float* exponents, float* factors) {
  const int64_t d = head.omega.dim, width = head.Width();
  ParallelForBlocks(context, rows, kTaskRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(FeaturesOnTarget)
    (head, x + begin * d, end - begin, context, exponents + begin * width, factors + begin * width);
  });
}

void FeaturesBackward(const HeadFeatures& head, const float* x, const float* grad_exponents,
                      const float* grad_factors, int64_t rows, const Context& context,
                      float* grad_x) {
  const int64_t d = head.omega.dim, width = head.Width();
  ParallelForBlocks(context, rows, kTaskRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(FeaturesBackwardOnTarget)
    (head, x + begin * d, end - begin, grad_exponents + begin * width, grad_factors + begin * width,
     context, grad_x + begin * d);
  });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
