// Records as the sequences that a trained model reads: where a record is cut, what is read and what
// is predicted.
#ifndef FAVOR_INFERENCE_SEQUENCES_H_
#define FAVOR_INFERENCE_SEQUENCES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "favor/data.h"
#include "favor/train.h"

namespace favor::inference {

struct CutOptions {
  int64_t length = 0;  // 0: the run's
  std::optional<Layout> layout;
};

// A part of a record that one pass reads.
struct Piece {
  int64_t record = 0;  // number in a list of records
  int64_t first = 0;   // place of its first target among the record's
  int64_t targets = 0;
};

class Sequences {
 public:
  // Throws kInvalidOption for a layout that records cannot be read in.
  Sequences(const TrainedModel& trained, const CutOptions& options);

  bool causal() const { return causal_; }
  int64_t length() const { return length_; }

  // Targets of a record of so many tokens, and how many of them are in its pieces.
  int64_t Targets(int64_t tokens) const;
  int64_t TargetsInPieces(int64_t tokens) const;
  // Adds the pieces of a record.
  void Cut(int64_t record, int64_t tokens, std::vector<Piece>& pieces) const;
  // The place in the record's tokens of its target number i.
  int64_t PlaceOf(int64_t target) const { return target + first_place_; }

  // Appends a row to a batch: what is read of a piece, with its targets, filled up to the batch's
  // length. For encoders the targets are the tokens themselves: nothing is hidden.
  void AddRow(std::span<const int32_t> record, const Piece& piece, Batch& batch) const;

 private:
  bool causal_, crop_;
  int64_t length_;
  int32_t padding_;
  // Decoders: what is read before the first token, if that is predicted, and what is predicted
  // after the last.
  std::optional<int32_t> start_, end_;
  int64_t first_place_ = 0;
};

}  // namespace favor::inference

#endif  // FAVOR_INFERENCE_SEQUENCES_H_
