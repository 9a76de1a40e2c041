// What the kinds of attention with feature maps share: the checks of a call, and what it computes
// once for each head.
#ifndef FAVOR_ATTENTION_LINEAR_CALL_H_
#define FAVOR_ATTENTION_LINEAR_CALL_H_

#include "attention/kind.h"
#include "features/drawn_features.h"
#include "kernels/linear_attention.h"

namespace favor::attention {

// Checks options, and gives the call its plan and the mean of its keys.
void CompleteLinear(const AttentionOptions& options, const Context& context, Call& call);

// Constants of each batch entry and head, and what gradients need of them.
class LinearTrace : public KindTrace {
 public:
  // `keeps_states`: there will be gradients, which read states of keys. Their memory is that of an
  // earlier trace if it fits.
  LinearTrace(const Call& call, bool keeps_states, const Context& context,
              std::unique_ptr<KindTrace> earlier = nullptr);

  kernels::LinearHeads Heads(const kernels::AttentionProblem& problem) const {
    return {.features = features::ConstantsOf(plan_), .oprf_a = oprf_a_, .key_mean = Mean(problem)};
  }
  kernels::PrefixStates states() const { return states_.views(); }
  kernels::KeptStates* kept() { return keeps_segments_ ? &kept_ : nullptr; }
  const kernels::KeptStates* kept() const { return keeps_segments_ ? &kept_ : nullptr; }

  int64_t Bytes() const override;
  std::string_view Difference(const AttentionOptions& options,
                              const Context& context) const override;

 private:
  // A frozen mean is one for all batches.
  ConstView Mean(const kernels::AttentionProblem& problem) const;

  FeaturePlan plan_;
  bool owns_plan_;                          // drawn by the call
  std::shared_ptr<const Tensor> key_mean_;  // null: keys as they are
  Tensor oprf_a_;
  kernels::StateTensors states_;  // of all keys
  bool keeps_segments_ = false;
  kernels::KeptStates kept_;  // of causal calls: the states of segments
};

// Columns of the products with features that a call of these options makes per row: m, or the width
// of a map without ω.
double ProductColumns(const CacheShape& shape, const AttentionOptions& options);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_LINEAR_CALL_H_
