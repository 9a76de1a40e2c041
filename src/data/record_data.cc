// Sequences that are records, or pieces of records: proteins, pictures. Training goes through all
// records in an order that is drawn anew for each round; evaluation always uses the same order.
#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

#include "core/error_text.h"
#include "data/labels.h"
#include "data/permutation.h"
#include "data/sources.h"

namespace favor::data {
namespace {

// A piece of a record: the sequence begins at place `first` of "<begin> a b c <end>" (causal) or
// of "a b c" (masked).
struct Piece {
  const StoredSplit* part;
  int64_t record, first;
};

class RecordData : public StoredData {
 public:
  explicit RecordData(Stored stored)
      : StoredData(std::move(stored)),
        special_(stored_.vocabulary->special()),
        crop_(stored_.options.format.layout == Layout::kCrop) {}

  int64_t Length(int64_t asked) const override {
    for (const Split split : {Split::kTrain, Split::kValid}) {
      if (Part(split).records() == 0) {
        Throw(
            ErrorCode::kInvalidData, Printable(stored_.source),
            "the {} split holds no record, expected at least one: give more records, other shares "
            "or another split_by",
            Name(split));
      }
    }
    if (stored_.length == 0) return asked == 0 ? kDefaultLength : asked;
    if (asked != 0 && asked != stored_.length) {
      Throw(ErrorCode::kInvalidOption, "length",
            "given {}, expected {}, the length of each sequence of '{}'", asked, stored_.length,
            Printable(stored_.source));
    }
    return stored_.length;
  }

  Batch TrainBatch(const BatchRequest& request) const override {
    Length(CheckedRequest(request).length == stored_.length ? 0 : request.length);
    const StoredSplit& part = Part(Split::kTrain);
    const int64_t records = part.records();
    const RandomStream crops(stored_.options.seed, "crops");
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < request.batch; ++i) {
      const int64_t place = request.index * request.batch + i;
      const Permutation order(RandomStream(stored_.options.seed, "order of records")
                                  .Child(static_cast<uint64_t>(place / records)),
                              records);
      Piece piece{&part, order.At(place % records), 0};
      if (crop_) {
        const int64_t places =
            std::max<int64_t>(0, Targets(part.RecordTokens(piece.record)) - request.length) + 1;
        piece.first = static_cast<int64_t>(crops.Uniform(static_cast<uint64_t>(place)) *
                                           static_cast<double>(places));
      }
      pieces.push_back(piece);
    }
    return Rows(Split::kTrain, pieces, request);
  }

  int64_t Batches(Split split, int64_t batch, int64_t length) const override {
    return (Sequences(split, length) + batch - 1) / batch;
  }

  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    const int64_t first = CheckedRequest(request).index * request.batch;
    const int64_t all = Sequences(split, request.length);
    std::vector<Piece> pieces;
    for (int64_t i = first; i < std::min(all, first + request.batch); ++i)
      pieces.push_back(PieceAt(split, InOrder(split, i, all), request.length));
    return Rows(split, pieces, request);
  }

 private:
  // Targets of a record of `tokens` tokens.
  int64_t Targets(int64_t tokens) const { return tokens + (causal() && special_.end ? 1 : 0); }

  // Running sums of the numbers of pieces of records, over all parts of a split; only for crops.
  std::shared_ptr<const std::vector<int64_t>> PieceEnds(Split split, int64_t length) const {
    const std::lock_guard lock(mutex_);
    auto& ends = piece_ends_[{split, length}];
    if (ends == nullptr) {
      auto sums = std::make_shared<std::vector<int64_t>>();
      int64_t sum = 0;
      for (const StoredSplit& part : Parts(split)) {
        for (int64_t i = 0, begin = 0; i < part.records(); ++i) {
          const auto end = static_cast<int64_t>(part.ends.At(i));
          sum += (Targets(end - begin) + length - 1) / length;
          sums->push_back(sum);
          begin = end;
        }
      }
      ends = std::move(sums);
    }
    return ends;
  }

  int64_t Sequences(Split split, int64_t length) const {
    if (crop_) {
      const auto ends = PieceEnds(split, length);
      return ends->empty() ? 0 : ends->back();
    }
    int64_t count = 0;
    for (const StoredSplit& part : Parts(split)) count += part.records();
    return count;
  }

  Piece PieceAt(Split split, int64_t number, int64_t length) const {
    int64_t record = number, first = 0;
    if (crop_) {
      const auto ends = PieceEnds(split, length);
      record = std::ranges::upper_bound(*ends, number) - ends->begin();
      first = (number - (record == 0 ? 0 : (*ends)[static_cast<size_t>(record - 1)])) * length;
    }
    for (const StoredSplit& part : Parts(split)) {
      if (record < part.records()) return {&part, record, first};
      record -= part.records();
    }
    Throw(ErrorCode::kInvalidOption, "batch", "beyond the end of the {} split", Name(split));
  }

  // Records from their first token on, after a begin token if a decoder reads them, with their
  // labels or those of their tokens.
  Batch LabelledRows(const std::vector<Piece>& pieces, const BatchRequest& request) const {
    const auto length = static_cast<size_t>(request.length);
    const bool decoder = stored_.options.decoder;
    Batch batch{.batch = std::ssize(pieces), .length = request.length};
    for (const Piece& piece : pieces) {
      std::vector<int32_t> row;
      if (decoder) row.push_back(*special_.begin);
      const int64_t most = request.length - std::ssize(row);
      const std::vector<int32_t> tokens = piece.part->Record(piece.record, 0, most);
      row.insert(row.end(), tokens.begin(), tokens.end());
      if (stored_.options.format.label_of == LabelOf::kSequence) {
        AddLabel(piece.part->Label(piece.record), batch);
      } else {
        // A token's label belongs to the row that has read it.
        if (decoder) AddLabel(kNoLabel, batch);
        for (const uint32_t label : piece.part->TokenLabels(piece.record, most))
          AddLabel(label, batch);
        for (size_t i = row.size(); i < length; ++i) AddLabel(kNoLabel, batch);
      }
      batch.mask.insert(batch.mask.end(), row.size(), 1.0f);
      batch.mask.insert(batch.mask.end(), length - row.size(), 0.0f);
      row.resize(length, special_.padding);
      batch.tokens.insert(batch.tokens.end(), row.begin(), row.end());
    }
    return batch;
  }

  void AddLabel(uint32_t label, Batch& batch) const {
    if (stored_.options.task == Task::kClassify) {
      batch.targets.push_back(label == kNoLabel ? kNoTarget : static_cast<int32_t>(label));
      return;
    }
    const auto value = static_cast<double>(std::bit_cast<float>(label));  // NaN: no label
    batch.values.push_back(
        static_cast<float>((value - stored_.scale.mean) / stored_.scale.deviation));
  }

  // causal: the targets of "<begin> a b c" are "a b c <end>". masked: the row is "a b c".
  Batch Rows(Split split, const std::vector<Piece>& pieces, const BatchRequest& request) const {
    if (labelled()) return LabelledRows(pieces, request);
    const auto length = static_cast<size_t>(request.length);
    Batch batch{.batch = std::ssize(pieces), .length = request.length};
    for (const Piece& piece : pieces) {
      // The targets; causal rows then get the token before them.
      std::vector<int32_t> row = piece.part->Record(piece.record, piece.first, request.length);
      if (causal()) {
        std::vector<int32_t> targets = row;
        if (targets.size() < length && special_.end) targets.push_back(*special_.end);
        targets.resize(length, kNoTarget);
        batch.targets.insert(batch.targets.end(), targets.begin(), targets.end());
        row.insert(row.begin(), piece.first == 0
                                    ? *special_.begin
                                    : piece.part->Record(piece.record, piece.first - 1, 1).at(0));
        if (row.size() > length) row.pop_back();
      }
      const size_t used = row.size();
      row.resize(length, special_.padding);
      batch.tokens.insert(batch.tokens.end(), row.begin(), row.end());
      // No target sees the padding, which comes after all of them: causal batches need no mask.
      if (!causal()) {
        batch.mask.insert(batch.mask.end(), used, 1.0f);
        batch.mask.insert(batch.mask.end(), length - used, 0.0f);
      }
    }
    if (!causal()) Mask(split, request, batch);
    return batch;
  }

  SpecialTokens special_;
  bool crop_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<Split, int64_t>, std::shared_ptr<const std::vector<int64_t>>>
      piece_ends_;
};

}  // namespace

std::unique_ptr<Dataset> MakeRecordData(Stored stored) {
  return std::make_unique<RecordData>(std::move(stored));
}

}  // namespace favor::data
