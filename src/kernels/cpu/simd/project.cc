// Rows times ω, once for each SIMD target. A structured ω is applied to a few rows at a time, which
// stay in the L1 cache and keep the pipeline full; its butterflies run within vectors, then across
// them.
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

// Element i becomes element i ^ kStride; kStride < Lanes().
template <int kStride>
HWY_INLINE Floats SwapLanes(Floats v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStride == 1) return hn::Shuffle2301(v);
  if constexpr (kStride == 2) return hn::Shuffle1032(v);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kStride == 4) return hn::SwapAdjacentBlocks(v);
#endif
#if HWY_TARGET <= HWY_AVX2
  if constexpr (kStride * 2 == Lanes()) return hn::ConcatLowerUpper(FloatTag(), v, v);
#endif
#endif
  return v;
}

// ±1 by bit `stride` of the lane.
HWY_INLINE Floats LaneSigns(int64_t stride) {
  HWY_ALIGN float signs[kWidestVector];
  for (int64_t lane = 0; lane < kWidestVector; ++lane)
    signs[lane] = (lane & stride) == 0 ? 1.0f : -1.0f;
  return hn::LoadU(FloatTag(), signs);
}

// The factors of H with strides below Lanes(): y ← ±y + partner.
HWY_INLINE void HadamardWithinVectors(int64_t n, int64_t total, float* y) {
  const FloatTag d;
  const Floats signs[4] = {LaneSigns(1), LaneSigns(2), LaneSigns(4), LaneSigns(8)};
  const int64_t strides = std::min(n, Lanes());
  for (int64_t i = 0; i < total; i += Lanes()) {
    Floats v = hn::LoadU(d, y + i);
    if (strides > 1) v = hn::MulAdd(v, signs[0], SwapLanes<1>(v));
    if (strides > 2) v = hn::MulAdd(v, signs[1], SwapLanes<2>(v));
    if (strides > 4) v = hn::MulAdd(v, signs[2], SwapLanes<4>(v));
    if (strides > 8) v = hn::MulAdd(v, signs[3], SwapLanes<8>(v));
    hn::StoreU(v, d, y + i);
  }
}

// Factors of H with strides stride, 2·stride … kRadix/2·stride, all at least Lanes().
template <int kRadix>
HWY_INLINE void HadamardAcrossVectors(int64_t total, int64_t stride, float* y) {
  const FloatTag d;
  for (int64_t base = 0; base < total; base += kRadix * stride) {
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

// H on every n elements of y [total], n a power of two; if n is less than a vector, the blocks lie
// one vector apart.
HWY_INLINE void Hadamard(int64_t n, int64_t total, float* y) {
  HadamardWithinVectors(n, total, y);
  int64_t stride = Lanes();
  for (; stride * 8 <= n; stride *= 8) HadamardAcrossVectors<8>(total, stride, y);
  for (; stride * 4 <= n; stride *= 4) HadamardAcrossVectors<4>(total, stride, y);
  for (; stride * 2 <= n; stride *= 2) HadamardAcrossVectors<2>(total, stride, y);
}

// The stages of one block of ω, prepared for rows: for a rotation, cos and ±sin of every element.
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
      rotations += stage.factor == OmegaStage::Factor::kRotations ? 1 : 0;
    turns_.assign(static_cast<size_t>(2 * rotations * padded_), 0.0f);
    float* cosines = turns_.data();
    for (const OmegaStage& stage : omega.stages) {
      if (stage.factor != OmegaStage::Factor::kRotations) continue;
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

  // y is [rows, padded], zero from column n on, and stays zero there.
  void Apply(int64_t rows, float* y) const {
    const auto count = static_cast<int64_t>(omega_.stages.size());
    int64_t rotation = transpose_ ? static_cast<int64_t>(turns_.size()) / (2 * padded_) - 1 : 0;
    for (int64_t i = 0; i < count; ++i) {
      const OmegaStage& stage = omega_.stages[static_cast<size_t>(transpose_ ? count - 1 - i : i)];
      switch (stage.factor) {
        case OmegaStage::Factor::kSigns: {
          const float* signs = parameters_ + stage.first_parameter;
          for (int64_t row = 0; row < rows; ++row) {
            float* HWY_RESTRICT line = y + row * padded_;
            for (int64_t j = 0; j < n_; ++j) line[j] *= signs[j];
          }
          break;
        }
        case OmegaStage::Factor::kHadamard:
          Hadamard(n_, rows * padded_, y);
          break;
        case OmegaStage::Factor::kRotations:
          for (int64_t row = 0; row < rows; ++row)
            Rotate(stage.stride, turns_.data() + 2 * rotation * padded_, y + row * padded_);
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
        const Floats partner = stride == 1   ? SwapLanes<1>(v)
                               : stride == 2 ? SwapLanes<2>(v)
                               : stride == 4 ? SwapLanes<4>(v)
                                             : SwapLanes<8>(v);
        const Floats turned = hn::Mul(partner, hn::LoadU(d, sines + i));
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

// Takes `rows` rows through the blocks of a structured ω, a few at a time so that they fill a
// quarter of the L1 cache: load(first, row, line), the stages on the line, store(first, row, line),
// where `first` is the block's first feature.
template <class Load, class Store>
HWY_INLINE void ThroughStages(const Omega& omega, bool transpose, int64_t rows, const Load& load,
                              const Store& store) {
  const int64_t padded = PaddedColumns(omega.padded_dim);
  const int64_t at_a_time = std::clamp<int64_t>(2048 / padded, 1, 16);
  AlignedVector<float> lines(static_cast<size_t>(at_a_time * padded));
  for (int64_t first = 0; first < omega.features; first += omega.padded_dim) {
    const StagedBlock block(omega, first / omega.padded_dim, transpose);
    for (int64_t begin = 0; begin < rows; begin += at_a_time) {
      const int64_t batch = std::min(at_a_time, rows - begin);
      for (int64_t i = 0; i < batch; ++i) load(first, begin + i, lines.data() + i * padded);
      block.Apply(batch, lines.data());
      for (int64_t i = 0; i < batch; ++i) store(first, begin + i, lines.data() + i * padded);
    }
  }
}

void ProjectRows(const PackedOmega& packed, const float* x, int64_t x_step, int64_t rows, float* u,
                 int64_t u_step) {
  const Omega& omega = packed.omega;
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  if (omega.IsDense()) {
    Multiply({x, x_step, 1}, packed.columns.data(), RowStep(m), rows, m, d, {u, u_step});
    return;
  }
  ThroughStages(
      omega, /*transpose=*/false, rows,
      [&](int64_t, int64_t row, float* line) HWY_ATTR {
        std::copy_n(x + row * x_step, d, line);
        std::fill(line + d, line + PaddedColumns(n), 0.0f);
      },
      [&](int64_t first, int64_t row, const float* HWY_RESTRICT line) HWY_ATTR {
        const float* HWY_RESTRICT scale = omega.row_scale.data() + first;
        float* HWY_RESTRICT to = u + row * u_step + first;
        for (int64_t r = 0; r < std::min(n, m - first); ++r) to[r] = scale[r] * line[r];
      });
  for (int64_t row = 0; row < rows; ++row)
    std::fill(u + row * u_step + m, u + row * u_step + PaddedColumns(m), 0.0f);
}

void ProjectRowsTranspose(const PackedOmega& packed, const float* grad_u, int64_t u_step,
                          int64_t rows, float* grad_x, int64_t x_step) {
  const Omega& omega = packed.omega;
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  if (omega.IsDense()) {
    Multiply({grad_u, u_step, 1}, packed.rows.data(), RowStep(d), rows, d, m, {grad_x, x_step});
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    std::fill_n(grad_x + row * x_step, PaddedColumns(d), 0.0f);
  ThroughStages(
      omega, /*transpose=*/true, rows,
      [&](int64_t first, int64_t row, float* HWY_RESTRICT line) HWY_ATTR {
        const int64_t count = std::min(n, m - first);
        const float* HWY_RESTRICT scale = omega.row_scale.data() + first;
        const float* HWY_RESTRICT from = grad_u + row * u_step + first;
        for (int64_t r = 0; r < count; ++r) line[r] = scale[r] * from[r];
        std::fill(line + count, line + PaddedColumns(n), 0.0f);
      },
      [&](int64_t, int64_t row, const float* HWY_RESTRICT line) HWY_ATTR {
        float* HWY_RESTRICT to = grad_x + row * x_step;
        for (int64_t i = 0; i < d; ++i) to[i] += line[i];
      });
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
