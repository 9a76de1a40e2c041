#include "kernels/features.h"

#include <algorithm>
#include <vector>

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

// Exponents and factors of `count` rows of one head. A row map may be given no exponents and no
// gradients of them.
void FeaturesOnTarget(const HeadFeatures& head, FeatureRole role, const float* x, int64_t count,
                      const Context& context, float* exponents, float* factors) {
  const int64_t width = head.width;
  FeaturePanel panel(head, count, /*backward=*/false, context);
  panel.Compute(role, ConstView(x, {count, head.dim}), 0, count, nullptr, 1, nullptr);
  if (head.map->IsRowMap()) {
    if (exponents != nullptr) std::fill_n(exponents, count * width, 0.0f);
    for (int64_t row = 0; row < count; ++row)
      std::copy_n(panel.Factors(row), width, factors + row * width);
    return;
  }
  std::vector<float> offset(static_cast<size_t>(width));
  for (int64_t r = 0; r < width; ++r)
    offset[static_cast<size_t>(r)] = static_cast<float>(head.Offset(r));
  for (int64_t row = 0; row < count; ++row, exponents += width, factors += width) {
    const auto norm = static_cast<float>(panel.NormTerm(row));
    for (int64_t r = 0; r < width; ++r)
      exponents[r] = panel.Exponents(row)[r] + norm + offset[static_cast<size_t>(r)];
    if (head.map->traits->has_factor) {
      std::copy_n(panel.Factors(row), width, factors);
    } else {
      std::fill_n(factors, width, 1.0f);
    }
  }
}

void FeaturesBackwardOnTarget(const HeadFeatures& head, FeatureRole role, const float* x,
                              int64_t count, const float* grad_exponents, const float* grad_factors,
                              const Context& context, float* grad_x) {
  const int64_t d = head.dim, width = head.width;
  FeaturePanel panel(head, count, /*backward=*/true, context);
  panel.Compute(role, ConstView(x, {count, d}), 0, count, nullptr, 1, nullptr);
  if (head.map->IsRowMap()) {
    const int64_t step = panel.step(), x_step = RowStep(d);
    const Scratch<float> memory(context, count * (step + x_step));
    float *from = memory.data(), *to = from + count * step;
    std::fill_n(from, count * step, 0.0f);
    for (int64_t row = 0; row < count; ++row) {
      std::fill_n(panel.Exponents(row), step, 1.0f);  // a factor's gradient is that of its weight
      std::copy_n(grad_factors + row * width, width, from + row * step);
    }
    panel.Backward(count, from, to, x_step);
    for (int64_t row = 0; row < count; ++row) std::copy_n(to + row * x_step, d, grad_x + row * d);
    return;
  }
  const int64_t rows = head.omega->features, u_step = RowStep(rows), x_step = RowStep(d);
  const Scratch<float> memory(context, count * (u_step + x_step) + width);
  float *grad_u = memory.data(), *tile = grad_u + count * u_step, *gradient = tile + count * x_step;
  const auto scale = static_cast<float>(head.argument_scale);
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(grad_factors + row * width, width, gradient);
    head.Weigh(role, gradient);
    RowsOf(*head.map).backward(head.features, static_cast<float>(head.epsilon), panel.U(row),
                               grad_exponents + row * width, gradient, grad_u + row * u_step);
    for (int64_t r = 0; r < rows; ++r) grad_u[row * u_step + r] *= scale;
  }
  ProjectRowsTranspose(*head.packed_omega, grad_u, u_step, count, tile, x_step);
  const auto slope = static_cast<float>(head.norm_slope);
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

// Calls body(head, first row, number of rows) for blocks of the rows of every group; the first row
// counts over all groups.
template <class Body>
void ForBlocks(const FeatureConstants& constants, int64_t heads, const ConstView& x,
               const Context& context, const Body& body) {
  const int64_t length = x.size(1), blocks = (length + kTaskRows - 1) / kTaskRows;
  ParallelFor(context, x.size(0) * blocks, [&](int64_t task) {
    const int64_t group = task / blocks, begin = task % blocks * kTaskRows;
    body(constants.Head(group % heads), group * length + begin,
         std::min(kTaskRows, length - begin));
  });
}

}  // namespace

void Features(const FeatureArguments& a, const Context& context) {
  const int64_t d = a.constants.dim(), width = a.constants.width();
  ForBlocks(a.constants, a.heads, a.x, context,
            [&](const HeadFeatures& head, int64_t row, int64_t count) {
              HWY_DYNAMIC_DISPATCH(FeaturesOnTarget)
              (head, a.role, a.x.Data<float>() + row * d, count, context,
               a.exponents.empty() ? nullptr : a.exponents.Data<float>() + row * width,
               a.factors.Data<float>() + row * width);
            });
}

void FeaturesBackward(const FeatureGradients& a, const Context& context) {
  const int64_t d = a.constants.dim(), width = a.constants.width();
  ForBlocks(a.constants, a.heads, a.x, context,
            [&](const HeadFeatures& head, int64_t row, int64_t count) {
              HWY_DYNAMIC_DISPATCH(FeaturesBackwardOnTarget)
              (head, a.role, a.x.Data<float>() + row * d, count,
               a.grad_exponents.empty() ? nullptr : a.grad_exponents.Data<float>() + row * width,
               a.grad_factors.Data<float>() + row * width, context,
               a.grad_x.Data<float>() + row * d);
            });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
