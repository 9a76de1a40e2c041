// Rows times ω, once for each SIMD target. A structured ω is applied to one row at a time, which
// stays in the first cache; its butterflies run across vectors, then within them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/project.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <vector>

#include "core/aligned.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/cpu/simd/project-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Element i becomes element i ^ stride; stride < Lanes().
HWY_INLINE Floats SwapLanes(Floats v, int64_t stride) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(stride);
  return v;
#else
  if (stride == 1) return hn::Shuffle2301(v);
  if (stride == 2) return hn::Shuffle1032(v);
#if HWY_TARGET <= HWY_AVX3
  if (stride == 4) return hn::SwapAdjacentBlocks(v);
#endif
#if HWY_TARGET <= HWY_AVX2
  return hn::ConcatLowerUpper(FloatTag(), v, v);
#else
  return v;
#endif
#endif
}

// y ← y + s·partner with partner = y of i ^ stride and s = ±1: the last log2(Lanes()) factors of H.
HWY_INLINE void HadamardWithinVectors(int64_t n, float* y) {
  const FloatTag d;
  HWY_ALIGN float sign_values[5][kWidestVector];
  int levels = 0;
  for (int64_t stride = 1; stride < std::min(n, Lanes()); stride *= 2, ++levels) {
    for (int64_t lane = 0; lane < kWidestVector; ++lane)
      sign_values[levels][lane] = (lane & stride) == 0 ? 1.0f : -1.0f;
  }
  for (int64_t i = 0; i < n; i += Lanes()) {
    Floats v = hn::LoadU(d, y + i);
    int64_t stride = 1;
    for (int level = 0; level < levels; ++level, stride *= 2)
      v = hn::MulAdd(v, hn::LoadU(d, sign_values[level]), SwapLanes(v, stride));
    hn::StoreU(v, d, y + i);
  }
}

// Factors of H with strides stride, 2·stride … kRadix/2·stride, all at least Lanes().
template <int kRadix>
HWY_INLINE void HadamardAcrossVectors(int64_t n, int64_t stride, float* y) {
  const FloatTag d;
  for (int64_t base = 0; base < n; base += kRadix * stride) {
    for (int64_t i = base; i < base + stride; i += Lanes()) {
      Floats v[kRadix];
      for (int j = 0; j < kRadix; ++j) v[j] = hn::LoadU(d, y + i + j * stride);
      for (int half = 1; half < kRadix; half *= 2) {
        for (int j = 0; j < kRadix; ++j) {
          if ((j & half) != 0) continue;
          const Floats sum = hn::Add(v[j], v[j + half]);
          v[j + half] = hn::Sub(v[j], v[j + half]);
          v[j] = sum;
        }
      }
      for (int j = 0; j < kRadix; ++j) hn::StoreU(v[j], d, y + i + j * stride);
    }
  }
}

HWY_INLINE void Hadamard(int64_t n, float* y) {
  HadamardWithinVectors(n, y);
  int64_t stride = Lanes();
  for (; stride * 8 <= n; stride *= 8) HadamardAcrossVectors<8>(n, stride, y);
  for (; stride * 4 <= n; stride *= 4) HadamardAcrossVectors<4>(n, stride, y);
  for (; stride * 2 <= n; stride *= 2) HadamardAcrossVectors<2>(n, stride, y);
}

// The stages of one block of ω, prepared for rows: of a rotation, cos and ±sin of every element.
class StagedBlock {
 public:
  StagedBlock(const Omega& omega, int64_t block, bool transpose)
      : omega_(omega),
        transpose_(transpose),
        n_(omega.padded_dim),
        padded_(PaddedColumns(n_)),
        parameters_(omega.block_parameters[static_cast<size_t>(block)].data()) {
    int64_t rotations = 0;
    for (const OmegaStage& stage : omega.stages)
      rotations += stage.kind == OmegaStage::Kind::kRotations ? 1 : 0;
    turns_.assign(static_cast<size_t>(2 * rotations * padded_), 0.0f);
    float* cosines = turns_.data();
    for (const OmegaStage& stage : omega.stages) {
      if (stage.kind != OmegaStage::Kind::kRotations) continue;
      const float* p = parameters_ + stage.first_parameter;
      float* sines = cosines + padded_;
      for (int64_t i = 0; i < n_; ++i) {
        if ((i & stage.stride) != 0) continue;
        const float sine = transpose ? -p[1] : p[1];
        cosines[i] = cosines[i + stage.stride] = p[0];
        sines[i] = -sine;
        sines[i + stage.stride] = sine;
        p += 2;
      }
      cosines += 2 * padded_;
    }
  }

  // y [padded], zero from n on; stays so.
  void Apply(float* y) const {
    const auto count = static_cast<int64_t>(omega_.stages.size());
    int64_t rotation = transpose_ ? static_cast<int64_t>(turns_.size()) / (2 * padded_) - 1 : 0;
    for (int64_t i = 0; i < count; ++i) {
      const OmegaStage& stage = omega_.stages[static_cast<size_t>(transpose_ ? count - 1 - i : i)];
      switch (stage.kind) {
        case OmegaStage::Kind::kSigns: {
          const float* signs = parameters_ + stage.first_parameter;
          for (int64_t j = 0; j < n_; ++j) y[j] *= signs[j];
          break;
        }
        case OmegaStage::Kind::kHadamard:
          Hadamard(n_, y);
          break;
        case OmegaStage::Kind::kRotations:
          Rotate(stage.stride, turns_.data() + 2 * rotation * padded_, y);
          rotation += transpose_ ? -1 : 1;
          break;
      }
    }
  }

 private:
  void Rotate(int64_t stride, const float* turns, float* y) const {
    const FloatTag d;
    const float *cosines = turns, *sines = turns + padded_;
    if (stride < Lanes()) {
      for (int64_t i = 0; i < n_; i += Lanes()) {
        const Floats v = hn::LoadU(d, y + i);
        const Floats turned = hn::Mul(SwapLanes(v, stride), hn::LoadU(d, sines + i));
        hn::StoreU(hn::MulAdd(v, hn::LoadU(d, cosines + i), turned), d, y + i);
      }
      return;
    }
    for (int64_t base = 0; base < n_; base += 2 * stride) {
      for (int64_t i = base; i < base + stride; i += Lanes()) {
        const Floats a = hn::LoadU(d, y + i), b = hn::LoadU(d, y + i + stride);
        const Floats c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, sines + i + stride);
        hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, y + i);
        hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, y + i + stride);
      }
    }
  }

  const Omega& omega_;
  bool transpose_;
  int64_t n_, padded_;
  const float* parameters_;
  AlignedVector<float> turns_;  // cosines and sines of one rotation stage after the other
};

void ProjectRows(const Omega& omega, const float* x, int64_t x_step, int64_t rows, float* u,
                 int64_t u_step) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  if (omega.IsDense()) {
    Multiply({x, x_step, 1}, omega.columns_f32.data(), RowStep(m), rows, m, d, {u, u_step});
    return;
  }
  AlignedVector<float> y(static_cast<size_t>(PaddedColumns(n)), 0.0f);
  for (int64_t first = 0; first < m; first += n) {
    const StagedBlock block(omega, first / n, /*transpose=*/false);
    const int64_t count = std::min(n, m - first);
    const float* scale = omega.row_scale.data() + first;
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(x + row * x_step, d, y.data());
      std::fill(y.begin() + d, y.end(), 0.0f);
      block.Apply(y.data());
      float* to = u + row * u_step + first;
      for (int64_t r = 0; r < count; ++r) to[r] = scale[r] * y[static_cast<size_t>(r)];
    }
  }
  for (int64_t row = 0; row < rows; ++row)
    std::fill(u + row * u_step + m, u + row * u_step + PaddedColumns(m), 0.0f);
}

void ProjectRowsTranspose(const Omega& omega, const float* grad_u, int64_t u_step, int64_t rows,
                          float* grad_x, int64_t x_step) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  if (omega.IsDense()) {
    Multiply({grad_u, u_step, 1}, omega.rows_f32.data(), RowStep(d), rows, d, m, {grad_x, x_step});
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    std::fill_n(grad_x + row * x_step, PaddedColumns(d), 0.0f);
  AlignedVector<float> y(static_cast<size_t>(PaddedColumns(n)), 0.0f);
  for (int64_t first = 0; first < m; first += n) {
    const StagedBlock block(omega, first / n, /*transpose=*/true);
    const int64_t count = std::min(n, m - first);
    const float* scale = omega.row_scale.data() + first;
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = grad_u + row * u_step + first;
      for (int64_t r = 0; r < count; ++r) y[static_cast<size_t>(r)] = scale[r] * from[r];
      std::fill(y.begin() + count, y.end(), 0.0f);
      block.Apply(y.data());
      for (int64_t i = 0; i < d; ++i) grad_x[row * x_step + i] += y[static_cast<size_t>(i)];
    }
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
