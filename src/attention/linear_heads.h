// From a linear attention call to what a kernel needs for one head: features, keys with mean and
// scale, queries, output.
#ifndef FAVOR_ATTENTION_LINEAR_HEADS_H_
#define FAVOR_ATTENTION_LINEAR_HEADS_H_

#include <vector>

#include "attention/problem.h"
#include "favor/attention.h"
#include "kernels/linear_attention.h"

namespace favor::attention {

struct LinearHead {
  kernels::HeadFeatures features;
  std::vector<double> mean;  // what keys.mean points to
  kernels::KeyRows keys;
  kernels::QueryRows queries;
  kernels::OutputRows out;

  LinearHead() = default;
  LinearHead(LinearHead&& other) noexcept { *this = std::move(other); }
  LinearHead& operator=(LinearHead&& other) noexcept {
    features = std::move(other.features);
    mean = std::move(other.mean);
    keys = other.keys;
    keys.mean = mean.empty() ? nullptr : mean.data();
    queries = other.queries;
    queries.key_mean = keys.mean;
    out = other.out;
    return *this;
  }
};

class HeadMaker {
 public:
  // Checks the options of linear attention against the problem and draws ω if no plan is given.
  HeadMaker(const Problem& problem, const AttentionOptions& options, const Context& context);

  int64_t width() const { return plan_.width(); }
  LinearHead Make(int64_t group, View out) const;

 private:
  const Problem& problem_;
  const AttentionOptions& options_;
  FeaturePlan plan_;
  bool data_a_ = false;  // oprf's A from the call
};

// [d] or [H_kv, d] as means of every head; throws unless it fits.
std::vector<double> FrozenMean(const ConstView& mean, int64_t kv_heads, int64_t dim);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_LINEAR_HEADS_H_
