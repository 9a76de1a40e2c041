#include "models/gpu_support.h"

#include <algorithm>

#include "attention/kind.h"
#include "core/error_text.h"
#include "features/drawn_features.h"
#include "kernels/linear_attention.h"
#include "models/heads.h"

namespace favor::models {
namespace {

void CheckGroup(const layers::HeadGroup& group, const Device& gpu) {
  const AttentionOptions& options = group.options;
  const attention::Kind& kind = attention::FindKind(options.attention);
  if (!kind.RunsOnGpu())
    Throw(ErrorCode::kUnavailable, "attention", "given {} on {}, it runs on the cpu only",
          options.attention, Name(gpu));
  const int64_t dim = std::max(group.SeenDim(), group.value_dim);
  if (!kind.TakesPlan()) return;
  const FeatureMapInfo& map = FindMap(options.features.map);
  if (!map.has_omega && map.is_random)
    Throw(ErrorCode::kUnavailable, "map", "given {} on {}, it runs on the cpu only", map.name,
          Name(gpu));
  if (dim > kernels::kMostGpuColumns)
    Throw(ErrorCode::kUnavailable, "heads", "given heads of dim {} on {}, expected at most {}", dim,
          Name(gpu), kernels::kMostGpuColumns);
  const int64_t width = features::WidthOf(options.features, group.SeenDim());
  if (width > kernels::kMostGpuWidth)
    Throw(ErrorCode::kUnavailable, "features", "given {} of a head on {}, expected at most {}",
          width, Name(gpu), kernels::kMostGpuWidth);
}

}  // namespace

void CheckRunsOnGpu(const ModelConfig& config, const Device& gpu) {
  if (config.feed_forward == FeedForwardKind::kLinearised)
    Throw(ErrorCode::kUnavailable, "feed_forward",
          "given linearised on {}, it runs on the cpu only", Name(gpu));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (const layers::HeadGroup& group : AttentionShapeOf(config, layer).groups)
      CheckGroup(group, gpu);
  }
}

}  // namespace favor::models
