// The inside of an AttentionState, shared by its operations, its file format and decoding.
#ifndef FAVOR_ATTENTION_STATE_DATA_H_
#define FAVOR_ATTENTION_STATE_DATA_H_

#include <memory>

#include "core/access.h"
#include "core/tally.h"
#include "favor/state.h"
#include "features/drawn_features.h"
#include "kernels/linear_attention.h"
#include "kernels/prefix_state.h"

namespace favor::attention {

struct State {
  FeaturePlan plan;
  int64_t batch = 1;
  int64_t value_dim = 0;
  double scale = 1;
  Tensor key_mean;               // f64 [1, heads, d] like states; empty: keys are not centred
  kernels::StateTensors states;  // [batch · heads]
  int64_t begin = 0, end = 0;    // positions of its tokens
  bool forgets = false;          // tokens come with decays

  int64_t Groups() const { return batch * plan.heads(); }
  Device device() const { return states.views().tokens.device(); }
  State To(const Device& where) const;  // a copy
  State Repeated(int64_t times) const;  // its batch several times

  // The problem of a call on this state, with checked arrays: queries, keys and values, or only one
  // side.
  kernels::AttentionProblem Problem(const ConstView& q, const ConstView& k,
                                    const ConstView& v) const;
  kernels::LinearHeads Heads() const;

  // Attention of new tokens to the prefix and to each other up to themselves; then they are part of
  // the prefix. If some rows are unusable, they are counted in the tally and the state is
  // unchanged. The caller must move `end`. Mask and decays as in AttentionProblem.
  void Continue(const AttentionInputs& inputs, const ConstView& mask, const ConstView& log_decay,
                const View& out, TallyEntry* tally, const Context& context);
};

// A copy of a state, its batch several times.
inline AttentionState RepeatedState(const AttentionState& state, int64_t times) {
  return internal::Access::Make<AttentionState>(
      std::make_unique<State>(internal::Inside(state).Repeated(times)));
}

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_STATE_DATA_H_
