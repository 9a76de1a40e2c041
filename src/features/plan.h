// The inside of a FeaturePlan: what attention and other operations above this layer read.
#ifndef FAVOR_FEATURES_PLAN_H_
#define FAVOR_FEATURES_PLAN_H_

#include <vector>

#include "favor/features.h"
#include "features/projection.h"
#include "kernels/features.h"

namespace favor {

struct FeaturePlan::Impl {
  FeatureOptions options;
  int64_t heads = 0;
  int64_t dim = 0;
  OmegaNorm norm = OmegaNorm::kChi;
  const features::ProjectionEntry* projection = nullptr;  // null: ω was given
  std::vector<kernels::HeadFeatures> head_features;       // one per head, or one for all

  const kernels::HeadFeatures& Head(int64_t head) const {
    return head_features[head_features.size() == 1 ? 0 : static_cast<size_t>(head)];
  }
};

}  // namespace favor

#endif  // FAVOR_FEATURES_PLAN_H_
