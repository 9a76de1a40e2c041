// Which calls of linear attention the fused kernels take, and how they see them.
#ifndef FAVOR_KERNELS_CUDA_FUSED_CALL_H_
#define FAVOR_KERNELS_CUDA_FUSED_CALL_H_

#include "kernels/cuda/fused/linear.cuh"
#include "kernels/cuda/linear/call.cuh"

namespace favor::kernels::cuda::fused {

// ω must be representable in bf16 (FeatureOptions::omega_type): it is then used as it is.
bool Takes(const general::Call& a, const FeatureConstants& constants, const Context& context);

Call CallOf(const general::Call& a, const Cut& cut, int64_t state_stride,
            const SegmentStates& states, int* flags);

// ℓ of a call that forgets as Call::decay; Λ of its segments goes to `states`.
class Decay {
 public:
  Decay(const Context& context, const general::Call& a, const Cut& cut,
        const SegmentStates& states);
  const float* data() const { return memory_.data(); }

 private:
  DeviceScratch<float> memory_;
};

// Marks of segments that the general kernels do again, none at first.
class Flags {
 public:
  Flags(const Context& context, int64_t count);
  int* data() const { return memory_.data(); }
  int64_t count() const { return count_; }

 private:
  int64_t count_;
  DeviceScratch<int> memory_;
};

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_CALL_H_
