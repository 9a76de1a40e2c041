#include "inference/sequences.h"

#include <algorithm>

#include "core/error_text.h"

namespace favor::inference {

Sequences::Sequences(const TrainedModel& trained, const CutOptions& options)
    : causal_(trained.model.config().causal),
      length_(options.length == 0 ? trained.config.training.length : options.length),
      padding_(trained.vocabulary->special().padding) {
  if (options.layout == Layout::kJoin) {
    Throw(ErrorCode::kInvalidOption, "layout",
          "given join, expected clip or crop: each record has a figure of its own");
  }
  const SpecialTokens special = trained.vocabulary->special();
  const bool records = special.begin.has_value();  // text has no begin and no end
  const Layout own = trained.config.format.layout;
  crop_ = options.layout.value_or(records && own == Layout::kClip ? Layout::kClip
                                                                  : Layout::kCrop) == Layout::kCrop;
  if (!causal_) return;
  start_ = trained.start;
  // An end that training never showed cannot be predicted.
  if (special.end && std::ranges::find(trained.unseen, *special.end) == trained.unseen.end())
    end_ = special.end;
  first_place_ = start_ ? 0 : 1;
}

int64_t Sequences::Targets(int64_t tokens) const {
  if (!causal_) return tokens;
  return std::max<int64_t>(0, tokens + (start_ ? 1 : 0) + (end_ ? 1 : 0) - 1);
}

int64_t Sequences::TargetsInPieces(int64_t tokens) const {
  return crop_ ? Targets(tokens) : std::min(length_, Targets(tokens));
}

void Sequences::Cut(int64_t record, int64_t tokens, std::vector<Piece>& pieces) const {
  const int64_t targets = TargetsInPieces(tokens);
  for (int64_t first = 0; first < targets; first += length_)
    pieces.push_back({record, first, std::min(length_, targets - first)});
}

void Sequences::AddRow(std::span<const int32_t> record, const Piece& piece, Batch& batch) const {
  const int64_t first = PlaceOf(piece.first), tokens = std::ssize(record);
  // The targets lie next to each other in the record; only the last may be its end.
  for (int64_t i = 0; i < piece.targets; ++i) {
    const int64_t place = first + i, read = causal_ ? place - 1 : place;
    batch.tokens.push_back(read < 0 ? *start_ : record[static_cast<size_t>(read)]);
    batch.targets.push_back(place == tokens ? *end_ : record[static_cast<size_t>(place)]);
  }
  const auto rest = static_cast<size_t>(batch.length - piece.targets);
  batch.tokens.insert(batch.tokens.end(), rest, padding_);
  batch.targets.insert(batch.targets.end(), rest, kNoTarget);
  // No target of a decoder sees the padding, which comes after all of them.
  if (!causal_) {
    batch.mask.insert(batch.mask.end(), static_cast<size_t>(piece.targets), 1.0f);
    batch.mask.insert(batch.mask.end(), rest, 0.0f);
  }
  ++batch.batch;
}

}  // namespace favor::inference
