// The inside of an AttentionState, shared by its operations and its file format.
#ifndef FAVOR_ATTENTION_STATE_IMPL_H_
#define FAVOR_ATTENTION_STATE_IMPL_H_

#include <vector>

#include "favor/state.h"
#include "features/plan.h"
#include "kernels/prefix_state.h"

namespace favor {

struct AttentionState::Impl {
  FeaturePlan plan;
  int64_t batch = 1;
  int64_t value_dim = 0;
  double scale = 1;
  std::vector<double> mean;                  // [heads, d]; empty: keys are not centred
  std::vector<kernels::PrefixState> states;  // [batch, heads]

  int64_t Groups() const { return batch * plan.heads(); }
  const double* Mean(int64_t head) const {
    return mean.empty() ? nullptr : mean.data() + head * plan.dim();
  }
};

}  // namespace favor

#endif  // FAVOR_ATTENTION_STATE_IMPL_H_
