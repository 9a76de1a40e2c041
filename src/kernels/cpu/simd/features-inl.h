// Features of a panel of rows, for the SIMD target being compiled: exponents, factors and weights
// as rows along the features.
//
// The exponent of a feature is kept in three parts, E_r(x) = e_r + norm_slope·‖x‖²/2 + offset_r
// with e_r in float and the rest in double, so that floats round differences and not ‖x‖²/2, which
// is already 256 at standard deviation 8 and d = 64.
#if defined(FAVOR_KERNELS_CPU_SIMD_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_FEATURES_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_FEATURES_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_FEATURES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/aligned.h"
#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/features.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Rows of a panel, as a row map reads them: kWidestVector zeros precede and follow each row of x.
struct PanelRows {
  const HeadFeatures& head;
  const Context& context;
  int64_t count;
  const float* x;  // [count, x_step]
  int64_t x_step;
};

// A map on one row of u, [m] (masked maps: [2m]) → exponents and factors [parts·m], and back to
// grad_u; or a row map on rows of x. Zeros follow rows of grad_factors up to the next row, and the
// padding of results may be written (that of factors with zeros).
struct MapRows {
  void (*evaluate)(int64_t m, float epsilon, const float* u, float* exponents, float* factors);
  void (*backward)(int64_t m, float epsilon, const float* u, const float* grad_exponents,
                   const float* grad_factors, float* grad_u);
  void (*row_factors)(const PanelRows& rows, float* factors, int64_t step);
  void (*row_backward)(const PanelRows& rows, const float* grad_factors, int64_t step,
                       float* grad_x, int64_t grad_step);
};
const MapRows& RowsOf(const MapEntry& map);

class FeaturePanel {
 public:
  // `backward`: Backward will be called.
  FeaturePanel(const HeadFeatures& head, int64_t max_rows, bool backward, const Context& context);

  // The map sees rows as (x − mean)·scale, and masked rows as zeros, whatever they hold.
  void Compute(FeatureRole role, const ConstView& rows, int64_t begin, int64_t count,
               const double* mean, double scale, const float* mask);

  int64_t step() const { return step_; }
  int64_t padded() const { return PaddedColumns(head_.width); }
  float* Exponents(int64_t row) const { return exponents_ + row * step_; }
  const float* Factors(int64_t row) const { return factors_ + row * step_; }  // before weighing
  float* Weights(int64_t row) const { return weights_ + row * step_; }
  const float* X(int64_t row) const { return x_ + row * x_step_; }
  const float* U(int64_t row) const { return u_ + row * u_step_; }
  double HalfNorm(int64_t row) const { return half_norm_[static_cast<size_t>(row)]; }
  // norm_slope·‖x‖²/2.
  double NormTerm(int64_t row) const { return head_.norm_slope * HalfNorm(row); }

  // largest[r] ← max(largest[r], e_ir + row_shift_i) over rows with exists_i.
  void FindLargest(int64_t count, const char* exists, const float* row_shift, float* largest) const;

  const std::vector<double>& offset() const { return offset_; }  // offset of every feature

  // Sets what weights are relative to: feature_shift_r = sign·c_r + offset_r − base, computed in
  // double. The padding never counts in maxima or sums.
  void SetFeatureShift(std::span<const double> c, double sign, double base);
  float FeatureShift(int64_t r) const { return feature_shift_[static_cast<size_t>(r)]; }

  // max_r e_r + feature_shift_r of a row.
  float LargestOfRow(int64_t row) const;

  // Both put weights w_r = exp(e_r + feature_shift_r + row_shift)·g_r in place of the exponents.
  // WeighAndDot returns Σ w_r·with_r; WeighAndSum bounds the sum in the exponential by `limit` and
  // adds factor·w_r to sums.
  float WeighAndDot(int64_t row, float row_shift, const float* with) const;
  void WeighAndSum(int64_t row, float row_shift, float limit, float factor, float* sums) const;
  void ClearWeights(int64_t row) const {
    std::fill_n(Exponents(row), padded(), 0.0f);
    std::fill_n(Weights(row), padded(), 0.0f);
  }

  // grad_x [count, x_step] of rows from the gradients of their weights, [count, step], which are
  // overwritten. Weights are those that WeighAndSum left.
  void Backward(int64_t count, float* grad_weights, float* grad_x, int64_t grad_step);
  // Then: the gradient of a number that is added to all exponents of a row.
  float ExponentGradient(int64_t row) const { return exponent_gradient_[static_cast<size_t>(row)]; }

 private:
  // The rows that a row map reads.
  PanelRows MapRowsOf(int64_t count) const {
    const bool rotated = head_.omega != nullptr;
    return {head_, context_, count, rotated ? u_ : x_, rotated ? u_step_ : x_step_};
  }

  const HeadFeatures& head_;  // outlives the panel
  const Context& context_;
  FeatureRole role_ = FeatureRole::kQuery;
  const MapRows& rows_;
  bool has_factor_;
  int64_t x_step_, u_step_, step_;
  std::vector<double> half_norm_;
  AlignedVector<float> exponent_gradient_;
  std::vector<double> offset_;  // [width]
  AlignedVector<float> feature_shift_;
  bool one_exponent_ = false;  // e_r + feature_shift_r is the same for all features
  Scratch<float> memory_;
  float *x_, *u_, *exponents_, *factors_, *weights_, *grad_u_, *row_memory_;
};

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_FEATURES_INL_H_
