// The last step of a row of exact attention, as in output_row.h: from its sums Σ 2^(s − largest) v
// and Σ 2^(s − largest) over the keys that it sees to what the caller wants.
#ifndef FAVOR_KERNELS_CUDA_EXACT_RESULT_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_RESULT_CUH_

#include "kernels/cuda/exact/call.cuh"

namespace favor::kernels::cuda {

class ExactResult {
 public:
  __device__ ExactResult(const ExactForward& a, int64_t group, int64_t row, float largest,
                         float sum)
      : a_(a),
        group_(group),
        row_(row),
        out_(a.out.At(group / a.problem.heads, group % a.problem.heads) + row * a.out.row_stride),
        has_keys_(!(sum == 0)),
        log_scale_(largest * kLn2),
        sum_(sum),
        inverse_(1 / sum) {}

  // What each row has once.
  __device__ void StoreRow() const {
    if (a_.log_scale != nullptr) {
      a_.log_scale[group_ * a_.log_scale_stride + row_] = has_keys_ ? log_scale_ : -INFINITY;
      a_.denominator[group_ * a_.denominator_stride + row_] = sum_;
    } else if (a_.log_sum != nullptr) {
      const bool divided = a_.problem.normalize && has_keys_;
      a_.log_sum[group_ * a_.log_sum_stride + row_] =
          divided     ? static_cast<float>(log_scale_ + log(static_cast<double>(sum_)))
          : has_keys_ ? 0.0f
                      : INFINITY;
    }
  }
  // Returns whether the element is finite; parts are not looked at.
  __device__ bool Store(int column, float sum) const {
    if (a_.log_scale != nullptr) {
      a_.numerator[group_ * a_.numerator_stride + row_ * a_.problem.value_dim + column] = sum;
      return true;
    }
    float result = 0;
    if (has_keys_ && a_.problem.normalize) result = sum * inverse_;
    if (has_keys_ && !a_.problem.normalize && sum != 0) result = Unnormalised(sum);
    return isfinite(StoreFloat(a_.out.data, a_.out.type, out_ + column, result));
  }
  __device__ bool IsEmpty() const { return !has_keys_ && a_.log_scale == nullptr; }

 private:
  // Through the logarithm: e^log_scale alone may overflow even if the sum does not.
  __device__ float Unnormalised(float sum) const {
    const double magnitude = fabs(static_cast<double>(sum));
    return copysignf(static_cast<float>(exp(log_scale_ + log(magnitude))), sum);
  }

  const ExactForward& a_;
  int64_t group_, row_, out_;
  bool has_keys_;
  double log_scale_;
  float sum_, inverse_;
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_RESULT_CUH_
