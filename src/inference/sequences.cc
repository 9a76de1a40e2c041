#include "inference/sequences.h"

#include "core/error_text.h"

namespace favor::inference {

void CheckPredictsTokens(const TrainedModel& trained) {
  if (trained.model.config().classes > 0) {
    Throw(ErrorCode::kInvalidOption, Printable(trained.path),
          "predicts labels, expected a model that predicts tokens");
  }
}

Sequences::Sequences(const TrainedModel& trained, const CutOptions& options)
    : causal_(trained.model.config().causal),
      length_(options.length == 0 ? trained.config.training.length : options.length),
      padding_(trained.vocabulary->special().padding) {
  masks_ = !causal_ || trained.model.config().classes > 0;
  if (options.layout == Layout::kJoin) {
    Throw(ErrorCode::kInvalidOption, "layout",
          "given join, expected clip or crop: each record has a figure of its own");
  }
  const SpecialTokens special = trained.vocabulary->special();
  const bool text = !special.begin;  // its records begin with a token of what is before them
  const Layout own = trained.config.format.layout;
  crop_ = options.layout.value_or(!text && own == Layout::kClip ? Layout::kClip : Layout::kCrop) ==
          Layout::kCrop;
  first_own_ = text ? 1 : 0;
  if (!causal_) {
    first_target_ = first_read_ = first_own_;
    return;
  }
  start_ = trained.start;
  // An end that training never showed cannot be predicted.
  if (special.end && std::ranges::find(trained.unseen, *special.end) == trained.unseen.end())
    end_ = special.end;
  first_target_ = start_ ? 0 : 1;
  first_read_ = first_target_ - 1;
  const ModelConfig& model = trained.model.config();
  const int64_t before = first_own_ - first_read_;
  if (model.positions != Positions::kLearned || length_ + before <= model.max_length)
    more_ = before;
}

int64_t Sequences::Targets(int64_t tokens) const {
  return std::max<int64_t>(0, tokens - first_target_ + (end_ ? 1 : 0));
}

int64_t Sequences::Reads(int64_t tokens) const {
  return std::max<int64_t>(0, tokens - first_read_);
}

void Sequences::CutTargets(int64_t record, int64_t targets, std::vector<Piece>& pieces) const {
  const int64_t all = TargetsInPieces(targets);
  for (int64_t first = 0; first < all; first += length_)
    pieces.push_back({record, first, std::min(length_, all - first)});
}

void Sequences::CutReads(int64_t record, int64_t reads, std::vector<Piece>& pieces) const {
  const int64_t all = ReadsInPieces(reads);
  for (int64_t first = 0; first < all;) {
    const int64_t count = std::min(first == 0 ? FirstReads() : length_, all - first);
    pieces.push_back({record, first, count});
    first += count;
  }
}

void Sequences::AddTargets(std::span<const int32_t> record, const Piece& piece,
                           Batch& batch) const {
  const int64_t tokens = std::ssize(record);
  for (int64_t i = 0; i < piece.count; ++i) {
    const int64_t place = PlaceOfTarget(piece.first + i), read = causal_ ? place - 1 : place;
    batch.tokens.push_back(read < 0 ? *start_ : record[static_cast<size_t>(read)]);
    batch.targets.push_back(place == tokens ? *end_ : record[static_cast<size_t>(place)]);
  }
  batch.targets.insert(batch.targets.end(), static_cast<size_t>(batch.length - piece.count),
                       kNoTarget);
  Pad(piece, batch);
}

void Sequences::AddReads(std::span<const int32_t> record, const Piece& piece, Batch& batch) const {
  for (int64_t i = 0; i < piece.count; ++i) {
    const int64_t place = PlaceOfRead(piece.first + i);
    batch.tokens.push_back(place < 0 ? *start_ : record[static_cast<size_t>(place)]);
  }
  Pad(piece, batch);
}

// Ends the row of a piece.
void Sequences::Pad(const Piece& piece, Batch& batch) const {
  const auto rest = static_cast<size_t>(batch.length - piece.count);
  batch.tokens.insert(batch.tokens.end(), rest, padding_);
  if (masks_) {
    batch.mask.insert(batch.mask.end(), static_cast<size_t>(piece.count), 1.0f);
    batch.mask.insert(batch.mask.end(), rest, 0.0f);
  }
  ++batch.batch;
}

}  // namespace favor::inference
