#include "favor/embedding.h"

#include <algorithm>
#include <vector>

#include "core/error_text.h"
#include "inference/sequences.h"

namespace favor {
namespace {

using inference::Piece;
using inference::Sequences;

// Rows of one record as they come in, piece by piece.
class Pool {
 public:
  Pool(Pooling pooling, int64_t width) : pooling_(pooling), width_(static_cast<size_t>(width)) {}

  void Add(const float* row) {
    ++count_;
    if (pooling_ == Pooling::kNone) {
      values_.insert(values_.end(), row, row + width_);
      return;
    }
    if (pooling_ == Pooling::kMean) {
      sums_.resize(width_);
      for (size_t i = 0; i < width_; ++i) sums_[i] += static_cast<double>(row[i]);
      return;
    }
    if (count_ == 1 || pooling_ == Pooling::kLast) {
      values_.assign(row, row + width_);
      return;
    }
    for (size_t i = 0; i < width_; ++i) values_[i] = std::max(values_[i], row[i]);
  }

  Tensor Rows() const {
    Tensor rows({pooling_ == Pooling::kNone ? count_ : 1, static_cast<int64_t>(width_)});
    if (pooling_ == Pooling::kMean) {
      for (size_t i = 0; i < width_; ++i)
        rows.Data<float>()[i] = static_cast<float>(sums_[i] / static_cast<double>(count_));
    } else {
      std::ranges::copy(values_, rows.Data<float>());
    }
    return rows;
  }

 private:
  Pooling pooling_;
  size_t width_;
  int64_t count_ = 0;
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
    sequences_.Cut(std::ssize(records_), sequences_.Reads(std::ssize(record.tokens)), pieces_);
    records_.push_back(std::move(record));
  }

  void Finish(const Context& context, const std::function<void(const Embedding&)>& visit) {
    std::vector<size_t> order(pieces_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    hidden_.assign(pieces_.size(), {});
    inference::ForEachBatch(
        order, batch_, [&](size_t piece) { return pieces_[piece].count; },
        [&](std::span<const size_t> pieces) { Run(pieces, context); });
    size_t piece = 0;
    for (size_t i = 0; i < records_.size(); ++i) {
      Pool pool(pooling_, trained_.model.config().width);
      for (; piece < pieces_.size() && pieces_[piece].record == static_cast<int64_t>(i); ++piece)
        AddTo(pool, pieces_[piece], hidden_[piece]);
      visit({.record = std::move(records_[i]), .rows = pool.Rows()});
    }
    records_.clear();
    pieces_.clear();
  }

 private:
  void Run(std::span<const size_t> pieces, const Context& context) {
    Batch batch{.length = pieces_[pieces.front()].count};  // the longest comes first
    for (const size_t piece : pieces) {
      const auto record = static_cast<size_t>(pieces_[piece].record);
      sequences_.AddReads(records_[record].tokens, pieces_[piece], batch);
    }
    const Tensor hidden = trained_.model.Hidden(batch, layer_, context);
    const int64_t width = hidden.shape()[2];
    for (size_t row = 0; row < pieces.size(); ++row) {
      const float* begin = hidden.Data<float>() + static_cast<int64_t>(row) * batch.length * width;
      hidden_[pieces[row]].assign(begin, begin + pieces_[pieces[row]].count * width);
    }
  }

  // Adds the rows of a piece, without those of what is before the record.
  void AddTo(Pool& pool, const Piece& piece, const std::vector<float>& hidden) const {
    const int64_t width = trained_.model.config().width;
    for (int64_t i = 0; i < piece.count; ++i) {
      if (sequences_.PlaceOfRead(piece.first + i) >= sequences_.FirstOwn())
        pool.Add(hidden.data() + i * width);
    }
  }

  const TrainedModel& trained_;
  const Sequences& sequences_;
  Pooling pooling_;
  int64_t layer_, batch_;
  std::vector<Record> records_;
  std::vector<Piece> pieces_;               // in the order of records
  std::vector<std::vector<float>> hidden_;  // rows of each piece
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
  if (sequences.InPieces(before + 1) <= before) {
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
                  in_pieces = sequences.InPieces(reads);
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
  Group group(trained, options, sequences);
  for (Record record; reader.Next(record); record = {}) {
    group.Add(std::move(record));
    if (group.Full()) group.Finish(context, visit);
  }
  group.Finish(context, visit);
}

}  // namespace favor
