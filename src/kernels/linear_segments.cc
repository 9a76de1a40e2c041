#include "kernels/linear_segments.h"

namespace favor::kernels {

bool IsFused(const MapEntry& map, int64_t dim, int64_t value_dim, int64_t features) {
  constexpr int64_t kPiece = 8;  // elements that are copied at a time
  const auto up_to = [&](int64_t columns, int64_t most_features) {
    return dim <= columns && value_dim <= columns && features <= most_features;
  };
  const FeatureMapInfo& info = map.traits->info;
  return (info.name == "relu" || map.linear) && (up_to(64, 256) || up_to(128, 128)) &&
         dim % kPiece == 0 && value_dim % kPiece == 0;
}

int64_t KeptStates::Bytes(int64_t groups, int64_t length, int64_t width, int64_t value_dim,
                          bool forgets) {
  const Cut cut = CutRows(groups, length, width, value_dim, /*sides=*/1,
                          forgets ? kMostDecayedRows : INT64_MAX, kMostFusedSegments);
  if (cut.segments == 1) return 0;
  return StateFloats(groups * cut.segments, width, value_dim) * ItemBytes(DataType::kF32);
}

}  // namespace favor::kernels
