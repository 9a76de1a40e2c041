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
  DrawnFeatures(const FeatureOptions& drawn_with, int64_t plan_heads, kernels::FeatureParts parts)
      : options(drawn_with), heads(plan_heads), constants(std::move(parts)) {}

  FeatureOptions options;
  int64_t heads;
  OmegaNorm norm = OmegaNorm::kChi;
  const ProjectionEntry* projection = nullptr;  // null: ω was given
  uint64_t seed = 0, redraw = 0;                // what the draw depended on
  kernels::FeatureConstants constants;
};

// A plan of a row map with given tables, as DrawTable makes them: one for each head or one for all;
// none for a map that draws nothing.
FeaturePlan PlanWithTables(const FeatureOptions& options, int64_t heads, int64_t dim,
                           std::vector<std::vector<int32_t>> tables);

// Columns of φ of a plan with these options; 0 if there is no such map.
int64_t WidthOf(const FeatureOptions& options, int64_t dim);

inline const kernels::FeatureConstants& ConstantsOf(const FeaturePlan& plan) {
  return internal::Inside(plan).constants;
}

}  // namespace favor::features

#endif  // FAVOR_FEATURES_DRAWN_FEATURES_H_
