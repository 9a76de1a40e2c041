// Masked-token modelling: 15 % of tokens are targets; of these 80 % are hidden, 10 % replaced by a
// token drawn by its frequency in training, and 10 % kept. (Replacements that hardly ever occur in
// training would give themselves away.)
#ifndef FAVOR_DATA_MASKING_H_
#define FAVOR_DATA_MASKING_H_

#include <cstdint>
#include <span>

#include "favor/data.h"
#include "favor/random.h"

namespace favor::data {

struct MaskTokens {
  int32_t hidden;  // the token that replaces a hidden one
  // reached[t] = Σ_{s ≤ t} frequency of token s: token t is the replacement with a probability
  // proportional to its frequency.
  std::span<const int64_t> reached;
};

// batch.tokens are whole sequences, numbered from `first`; sets targets and hides tokens. A pure
// function of the stream and a sequence's number.
void MaskBatch(const RandomStream& stream, int64_t first, const MaskTokens& tokens, Batch& batch);

}  // namespace favor::data

#endif  // FAVOR_DATA_MASKING_H_
