// Records as vectors: what a trained model makes of them.
//
//   favor::Embed(trained, *favor::OpenRecordsFor(trained, "mine.fasta"), {}, context,
//                [](const favor::Embedding& embedding) { … });
#ifndef FAVOR_EMBEDDING_H_
#define FAVOR_EMBEDDING_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "favor/context.h"
#include "favor/names.h"
#include "favor/records.h"
#include "favor/tensor.h"
#include "favor/train.h"

namespace favor {

// How the vectors of a record's tokens become one.
enum class Pooling : uint8_t { kNone, kMean, kLast, kMaximum };
template <>
inline constexpr auto kNamesOf<Pooling> = std::to_array<std::string_view>({"none", "mean", "last",
                                                                           "maximum"});

struct EmbedOptions {
  // 0: embeddings of tokens; n: rows after layer n; none: after the last, those that predictions
  // are made from.
  std::optional<int64_t> layer;
  Pooling pooling = Pooling::kMean;
  int64_t batch = 0;             // sequences at a time; 0: the run's
  int64_t length = 0;            // tokens of a sequence; 0: the run's
  std::optional<Layout> layout;  // of records beyond the length, as in LikelihoodOptions
};

struct Embedding {
  Record record;
  // f32 [tokens, width], a row for each token of the record that was read, or [1, width]. What is
  // read before a record has no row.
  Tensor rows;
};

// What there is to do; rewinds the reader, before and after.
struct EmbedWork {
  int64_t records = 0;
  int64_t rows = 0;      // of all embeddings
  int64_t tokens = 0;    // that are read
  int64_t clipped = 0;   // records of which a part is left out
  int64_t left_out = 0;  // tokens of these parts
};
EmbedWork CountWork(const TrainedModel& trained, RecordReader& reader, const EmbedOptions& options);

// Calls `visit` for each record, in their order. A token's row of a decoder knows the tokens before
// it, that of an encoder all tokens of its sequence; of a record that is read in pieces, only those
// of its piece. Holds a few hundred sequences in memory at a time, and all rows of a record only
// with kNone.
void Embed(const TrainedModel& trained, RecordReader& reader, const EmbedOptions& options,
           const Context& context, const std::function<void(const Embedding&)>& visit);

}  // namespace favor

#endif  // FAVOR_EMBEDDING_H_
