#include "data/masking.h"

#include <algorithm>

namespace favor::data {
namespace {

// Masks token `place` of a batch, which is number i of its sequence.
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
    const auto drawn = static_cast<int64_t>(stream.Uniform(3 * i + 2) *
                                            static_cast<double>(tokens.reached.back()));
    batch.tokens[place] = static_cast<int32_t>(std::ranges::upper_bound(tokens.reached, drawn) -
                                               tokens.reached.begin());
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

namespace favor {

std::vector<uint8_t> Maskings(const Batch& batch, const Vocabulary& vocabulary) {
  const int32_t hidden = vocabulary.special().hidden;
  std::vector<uint8_t> kinds;
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    const Masking kind = batch.tokens[i] == hidden ? Masking::kHidden
                         : batch.targets[i] == kNoTarget || batch.tokens[i] == batch.targets[i]
                             ? Masking::kKept
                             : Masking::kReplaced;
    kinds.push_back(static_cast<uint8_t>(kind));
  }
  return kinds;
}

}  // namespace favor
