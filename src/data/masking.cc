#include "data/masking.h"

namespace favor::data {

void MaskBatch(const RandomStream& stream, const MaskTokens& tokens, Batch& batch) {
  constexpr double kAsked = 0.15, kHidden = 0.8, kReplaced = 0.1;
  batch.targets.assign(batch.tokens.size(), kNoTarget);
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    if (!batch.mask.empty() && batch.mask[i] == 0) continue;
    if (stream.Uniform(3 * i) >= kAsked) continue;
    batch.targets[i] = batch.tokens[i];
    const double how = stream.Uniform(3 * i + 1);
    if (how < kHidden) {
      batch.tokens[i] = tokens.hidden;
    } else if (how < kHidden + kReplaced) {
      batch.tokens[i] = static_cast<int32_t>(stream.Uniform(3 * i + 2) * tokens.ordinary);
    }
  }
}

}  // namespace favor::data
