// From a linear attention call to what a kernel needs for one head: features, keys with mean and
// scale, queries, output.
#ifndef FAVOR_ATTENTION_LINEAR_HEADS_H_
#define FAVOR_ATTENTION_LINEAR_HEADS_H_

#include <memory>
#include <vector>

#include "attention/problem.h"
#include "favor/attention.h"
#include "kernels/linear_attention.h"

namespace favor::attention {

// What a call computes once for a head.
struct HeadConstants {
  std::shared_ptr<const kernels::HeadFeatures> features;  // the plan's, or one with this call's A
  std::shared_ptr<const std::vector<double>> mean = {};   // null: keys are not centred
};

// What kernels need of one group of a problem; it points into all three others.
kernels::LinearHead MakeLinearHead(const Problem& problem, int64_t group,
                                   const HeadConstants& constants, const Context& context);

class HeadMaker {
 public:
  // Checks the options of linear attention against the problem and draws ω if no plan is given.
  HeadMaker(const Problem& problem, const AttentionOptions& options, const Context& context);

  int64_t width() const { return plan_.width(); }
  int64_t StateBytes() const {
    return kernels::PrefixState::Bytes(plan_.width(), problem_.value_dim);
  }
  int64_t HeadBytes() const;  // of a head's constants beyond the plan
  HeadConstants Constants(int64_t group) const;

 private:
  const Problem& problem_;
  const AttentionOptions& options_;
  FeaturePlan plan_;
  bool data_a_ = false;              // oprf's A from the call
  std::vector<double> frozen_mean_;  // [heads, d]; empty: none
};

// The given plan, checked against the problem, or one drawn by the options.
FeaturePlan ChoosePlan(const Problem& problem, const AttentionOptions& options,
                       const Context& context);

// Throws unless the map's kernel is unchanged (after the division) when a vector is subtracted from
// all keys.
void CheckCentring(const FeaturePlan& plan);

// A mean of [d], or of one row for each of a divisor of `heads`, as [heads, d]; throws unless it
// fits.
std::vector<double> FrozenMean(const ConstView& mean, int64_t heads, int64_t dim);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_LINEAR_HEADS_H_
