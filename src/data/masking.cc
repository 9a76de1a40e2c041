#include "data/masking.h"

namespace favor::data {
namespace {

// Token `place` of a batch, number i of its sequence.
void MaskToken(const RandomStream& stream, uint64_t i, size_t place, const MaskTokens& tokens,
               Batch& batch) {
  constexpr double kAsked = 0.15, kHidden = 0.8, kReplaced = 0.1;
  if (!batch.mask.empty() && batch.mask[place] == 0) return;
  if (stream.Uniform(3 * i) >= kAsked) return;
  batch.targets[place] = batch.tokens[place];
  const double how = stream.Uniform(3 * i + 1);
  if (how < kHidden) {
    batch.tokens[place] = tokens.hidden;
  } else if (how < kHidden + kReplaced) {
    batch.tokens[place] = static_cast<int32_t>(stream.Uniform(3 * i + 2) * tokens.ordinary);
  }
}

}  // namespace

void MaskBatch(const RandomStream& stream, int64_t first, const MaskTokens& tokens, Batch& batch) {
  batch.targets.assign(batch.tokens.size(), kNoTarget);
  for (int64_t sequence = 0; sequence < batch.batch; ++sequence) {
    const RandomStream own = stream.Child(static_cast<uint64_t>(first + sequence));
    for (int64_t i = 0; i < batch.length; ++i) {
      MaskToken(own, static_cast<uint64_t>(i), static_cast<size_t>(sequence * batch.length + i),
                tokens, batch);
    }
  }
}

}  // namespace favor::data
