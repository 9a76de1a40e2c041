// Records as the sequences that a trained model reads: where a record is cut, what is read and what
// is predicted.
#ifndef FAVOR_INFERENCE_SEQUENCES_H_
#define FAVOR_INFERENCE_SEQUENCES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "favor/context.h"
#include "favor/data.h"
#include "favor/records.h"
#include "favor/train.h"

namespace favor::inference {

// Throws kInvalidOption for a model of labels.
void CheckPredictsTokens(const TrainedModel& trained);

struct CutOptions {
  int64_t length = 0;  // 0: the run's
  std::optional<Layout> layout;
};

// A part of a record that one pass reads: `count` of its targets, or of what is read of it.
struct Piece {
  int64_t record = 0;  // number in a list of records
  int64_t first = 0, count = 0;
};

class Sequences {
 public:
  // Throws kInvalidOption for a layout that records cannot be read in.
  Sequences(const TrainedModel& trained, const CutOptions& options);

  bool causal() const { return causal_; }
  int64_t length() const { return length_; }

  // What is predicted of a record of so many tokens: its tokens and, by decoders, its end. What is
  // read of it, if all of it is: by decoders a start, then its tokens.
  int64_t Targets(int64_t tokens) const;
  int64_t Reads(int64_t tokens) const;
  // Places in the record's tokens; that of a start is −1, that of an end the one after the last.
  int64_t PlaceOfTarget(int64_t target) const { return target + first_target_; }
  int64_t PlaceOfRead(int64_t read) const { return read + first_read_; }
  // Tokens before this place belong to what is before the record.
  int64_t FirstOwn() const { return first_own_; }

  // How many of these targets, or reads, are in pieces, and the pieces. What is read before a
  // record's own tokens is read besides the length, unless learned positions end there.
  int64_t TargetsInPieces(int64_t targets) const {
    return crop_ ? targets : std::min(length_, targets);
  }
  int64_t ReadsInPieces(int64_t reads) const {
    return crop_ ? reads : std::min(FirstReads(), reads);
  }
  void CutTargets(int64_t record, int64_t targets, std::vector<Piece>& pieces) const;
  void CutReads(int64_t record, int64_t reads, std::vector<Piece>& pieces) const;

  // Append a row to a batch, filled up to the batch's length: a piece of targets, with what is read
  // to predict them (for encoders, the tokens themselves: nothing is hidden), or a piece of what is
  // read, without targets.
  void AddTargets(std::span<const int32_t> record, const Piece& piece, Batch& batch) const;
  void AddReads(std::span<const int32_t> record, const Piece& piece, Batch& batch) const;

 private:
  int64_t FirstReads() const { return length_ + more_; }  // of the first piece of a record
  void Pad(const Piece& piece, Batch& batch) const;

  bool causal_, crop_;
  bool masks_;  // padding is masked: not needed if nothing but what comes after sees it
  int64_t length_;
  int32_t padding_;
  // Decoders: what is read before the first token, and what is predicted after the last.
  std::optional<int32_t> start_, end_;
  int64_t first_target_ = 0, first_read_ = 0, first_own_ = 0;
  int64_t more_ = 0;  // reads besides the length
};

// Calls run(items) for at most `batch` items at a time, those of similar length together, the
// longest first: little padding is read.
template <class Item, class Length, class Run>
void ForEachBatch(std::vector<Item>& items, int64_t batch, const Length& length, const Run& run) {
  std::ranges::stable_sort(items, std::greater<>(), length);
  const auto most = static_cast<size_t>(batch);
  for (size_t first = 0; first < items.size(); first += most)
    run(std::span<const Item>(items).subspan(first, std::min(most, items.size() - first)));
}
constexpr int64_t kBatchesAtOnce = 16;  // that are sorted together

// Reads all records into a group, which is finished whenever it is full, and at the end.
template <class Group, class Visit>
void ReadInGroups(RecordReader& reader, Group group, const Context& context, const Visit& visit) {
  for (Record record; reader.Next(record); record = {}) {
    group.Add(std::move(record));
    if (group.Full()) group.Finish(context, visit);
  }
  group.Finish(context, visit);
}

}  // namespace favor::inference

#endif  // FAVOR_INFERENCE_SEQUENCES_H_
