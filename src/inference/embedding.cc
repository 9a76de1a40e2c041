#include "favor/embedding.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error_text.h"
#include "inference/sequences.h"

namespace favor {
namespace {

using inference::Piece;
using inference::Sequences;

// What is kept of the rows of one record; its pieces come in any order.
class Pool {
 public:
  Pool(Pooling pooling, int64_t width) : pooling_(pooling), width_(static_cast<size_t>(width)) {}

  // Adds `count` rows, from row `first` of the record on.
  void Add(int64_t first, const float* rows, int64_t count) {
    if (count == 0) return;
    const auto size = static_cast<size_t>(count) * width_;
    rows_ += count;
    if (pooling_ == Pooling::kMean) {
      sums_.resize(width_);
      for (size_t i = 0; i < size; ++i) sums_[i % width_] += static_cast<double>(rows[i]);
    } else if (pooling_ == Pooling::kMaximum) {
      values_.resize(width_, -std::numeric_limits<float>::infinity());
      for (size_t i = 0; i < size; ++i)
        values_[i % width_] = std::max(values_[i % width_], rows[i]);
    } else if (pooling_ == Pooling::kLast) {
      if (first < last_) return;
      last_ = first;
      values_.assign(rows + size - width_, rows + size);
    } else {
      const size_t begin = static_cast<size_t>(first) * width_;
      values_.resize(std::max(values_.size(), begin + size));
      std::copy_n(rows, size, values_.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }

  Tensor Rows() const {
    Tensor rows({pooling_ == Pooling::kNone ? rows_ : 1, static_cast<int64_t>(width_)});
    std::ranges::copy(values_, rows.Data<float>());
    for (size_t i = 0; i < sums_.size(); ++i)
      rows.Data<float>()[i] = static_cast<float>(sums_[i] / static_cast<double>(rows_));
    return rows;
  }

 private:
  Pooling pooling_;
  size_t width_;
  int64_t rows_ = 0, last_ = 0;  // last_: the first row of the last piece so far
  std::vector<float> values_;
  std::vector<double> sums_;
};

// Records that are read together.
class Group {
 public:
  Group(const TrainedModel& trained, const EmbedOptions& options, const Sequences& sequences)
      : trained_(trained),
        sequences_(sequences),
        pooling_(options.pooling),
        layer_(options.layer.value_or(trained.model.config().layers)),
        batch_(options.batch == 0 ? trained.config.training.batch : options.batch) {}

  bool Full() const { return std::ssize(pieces_) >= inference::kBatchesAtOnce * batch_; }

  void Add(Record record) {
    sequences_.CutReads(std::ssize(records_), sequences_.Reads(std::ssize(record.tokens)), pieces_);
    records_.push_back(std::move(record));
    pools_.emplace_back(pooling_, trained_.model.config().width);
  }

  void Finish(const Context& context, const std::function<void(const Embedding&)>& visit) {
    inference::ForEachBatch(
        pieces_, batch_, [](const Piece& piece) { return piece.count; },
        [&](std::span<const Piece> pieces) { Run(pieces, context); });
    for (size_t i = 0; i < records_.size(); ++i)
      visit({.record = std::move(records_[i]), .rows = pools_[i].Rows()});
    records_.clear();
    pieces_.clear();
    pools_.clear();
  }

 private:
  void Run(std::span<const Piece> pieces, const Context& context) {
    Batch batch{.length = pieces.front().count};  // the longest comes first
    for (const Piece& piece : pieces)
      sequences_.AddReads(records_[static_cast<size_t>(piece.record)].tokens, piece, batch);
    const Tensor hidden = trained_.model.Hidden(batch, layer_, context);
    const int64_t width = hidden.shape()[2];
    for (size_t row = 0; row < pieces.size(); ++row) {
      const Piece& piece = pieces[row];
      // Without what is read before the record's own tokens.
      const int64_t place = sequences_.PlaceOfRead(piece.first) - sequences_.FirstOwn();
      const int64_t skipped = std::min(piece.count, std::max<int64_t>(0, -place));
      const int64_t begin = static_cast<int64_t>(row) * batch.length + skipped;
      pools_[static_cast<size_t>(piece.record)].Add(
          place + skipped, hidden.Data<float>() + begin * width, piece.count - skipped);
    }
  }

  const TrainedModel& trained_;
  const Sequences& sequences_;
  Pooling pooling_;
  int64_t layer_, batch_;
  std::vector<Record> records_;
  std::vector<Piece> pieces_;
  std::vector<Pool> pools_;  // of each record
};

// Reads before a record's own tokens, which have no row.
int64_t ReadsBefore(const Sequences& sequences) {
  return sequences.FirstOwn() - sequences.PlaceOfRead(0);
}

Sequences SequencesOf(const TrainedModel& trained, const EmbedOptions& options) {
  const int64_t layers = trained.model.config().layers;
  if (options.layer && (*options.layer < 0 || *options.layer > layers)) {
    Throw(ErrorCode::kInvalidOption, "layer", "given {}, expected 0 (the embedding) to {}",
          *options.layer, layers);
  }
  const Sequences sequences(trained, {.length = options.length, .layout = options.layout});
  const int64_t before = ReadsBefore(sequences);
  if (sequences.ReadsInPieces(before + 1) <= before) {
    Throw(ErrorCode::kInvalidOption, "length",
          "given {}, expected at least {}: sequences begin with a token that is not theirs",
          sequences.length(), before + 1);
  }
  return sequences;
}

}  // namespace

EmbedWork CountWork(const TrainedModel& trained, RecordReader& reader,
                    const EmbedOptions& options) {
  const Sequences sequences = SequencesOf(trained, options);
  EmbedWork work;
  reader.Rewind();
  for (Record record; reader.Next(record);) {
    const int64_t reads = sequences.Reads(std::ssize(record.tokens)),
                  in_pieces = sequences.ReadsInPieces(reads);
    const int64_t tokens = in_pieces - ReadsBefore(sequences);
    ++work.records;
    work.tokens += tokens;
    work.rows += options.pooling == Pooling::kNone ? tokens : 1;
    work.left_out += reads - in_pieces;
    work.clipped += reads > in_pieces ? 1 : 0;
  }
  reader.Rewind();
  return work;
}

void Embed(const TrainedModel& trained, RecordReader& reader, const EmbedOptions& options,
           const Context& context, const std::function<void(const Embedding&)>& visit) {
  const Sequences sequences = SequencesOf(trained, options);
  inference::ReadInGroups(reader, Group(trained, options, sequences), context, visit);
}

}  // namespace favor
