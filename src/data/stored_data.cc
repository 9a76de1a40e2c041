#include "data/stored_data.h"

#include "data/masking.h"
#include "favor/random.h"

namespace favor::data {

void StoredData::Mask(Split split, const BatchRequest& request, Batch& batch) const {
  const RandomStream stream =
      RandomStream(stored_.options.seed, "masks").Child(static_cast<uint64_t>(split));
  MaskBatch(stream, request.index * request.batch,
            {.hidden = stored_.vocabulary->special().hidden,
             .ordinary = static_cast<int32_t>(stored_.vocabulary->ordinary())},
            batch);
}

}  // namespace favor::data
