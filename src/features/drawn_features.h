// The inside of a FeaturePlan, for attention and other operations in the layers above.
#ifndef FAVOR_FEATURES_DRAWN_FEATURES_H_
#define FAVOR_FEATURES_DRAWN_FEATURES_H_

#include <vector>

#include "core/access.h"
#include "favor/features.h"
#include "features/projection.h"
#include "kernels/features.h"

namespace favor::features {

struct DrawnFeatures {
  DrawnFeatures(const FeatureOptions& drawn_with, int64_t plan_heads, int64_t dim, double epsilon,
                std::vector<kernels::Omega> omega, std::vector<double> oprf_a,
                const kernels::MapEntry& map)
      : options(drawn_with),
        heads(plan_heads),
        constants(map, dim, epsilon, std::move(omega), std::move(oprf_a)) {}

  FeatureOptions options;
  int64_t heads;
  OmegaNorm norm = OmegaNorm::kChi;
  const ProjectionEntry* projection = nullptr;  // null: ω was given
  uint64_t seed = 0, redraw = 0;                // what the draw depended on
  kernels::FeatureConstants constants;
};

inline const kernels::FeatureConstants& ConstantsOf(const FeaturePlan& plan) {
  return internal::Inside(plan).constants;
}

}  // namespace favor::features

#endif  // FAVOR_FEATURES_DRAWN_FEATURES_H_
