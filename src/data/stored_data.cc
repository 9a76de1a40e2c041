#include "data/stored_data.h"

#include <numeric>

#include "data/masking.h"
#include "data/permutation.h"
#include "favor/random.h"

namespace favor::data {

StoredData::StoredData(Stored stored) : stored_(std::move(stored)) {
  const auto ordinary = static_cast<size_t>(stored_.vocabulary->ordinary());
  reached_.resize(ordinary);
  std::partial_sum(stored_.train_counts.begin(),
                   stored_.train_counts.begin() + static_cast<std::ptrdiff_t>(ordinary),
                   reached_.begin());
  // Data that is only evaluated may have no train split: then all replacements are equally likely.
  if (reached_.back() == 0) std::iota(reached_.begin(), reached_.end(), 1);
}

SplitSummary StoredData::Summary(Split split) const {
  SplitSummary summary;
  for (const StoredSplit& part : Parts(split)) {
    summary.records += part.summary.records;
    summary.tokens += part.summary.tokens;
    summary.words += part.summary.words;
    summary.characters += part.summary.characters;
    for (const auto& [length, count] : part.summary.lengths) summary.lengths[length] += count;
  }
  return summary;
}

std::span<const StoredSplit> StoredData::Parts(Split split) const {
  if (split == Split::kAll) return stored_.splits;
  return std::span(stored_.splits).subspan(static_cast<size_t>(split), 1);
}

int64_t StoredData::InOrder(Split split, int64_t place, int64_t count) {
  const RandomStream stream =
      RandomStream(0, "order of evaluation").Child(static_cast<uint64_t>(split));
  return Permutation(stream, count).At(place);
}

void StoredData::Mask(Split split, const BatchRequest& request, Batch& batch) const {
  const RandomStream stream =
      RandomStream(stored_.options.seed, "masks").Child(static_cast<uint64_t>(split));
  MaskBatch(stream, request.index * request.batch,
            {.hidden = stored_.vocabulary->special().hidden, .reached = reached_}, batch);
}

}  // namespace favor::data
