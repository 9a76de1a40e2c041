// Masked-token modelling: 15 % of tokens are asked for; of these 80 % are hidden, 10 % replaced by
// another token and 10 % left as they are.
#ifndef FAVOR_DATA_MASKING_H_
#define FAVOR_DATA_MASKING_H_

#include "favor/data.h"
#include "favor/random.h"

namespace favor::data {

struct MaskTokens {
  int32_t hidden;    // stands for a hidden token
  int32_t ordinary;  // tokens 0 … ordinary − 1 may replace another
};

// batch.tokens are whole sequences, numbered from `first`; sets targets and hides. A pure function
// of the stream and a sequence's number.
void MaskBatch(const RandomStream& stream, int64_t first, const MaskTokens& tokens, Batch& batch);

}  // namespace favor::data

#endif  // FAVOR_DATA_MASKING_H_
