// Text as pieces of words, learned by SentencePiece.
#ifndef FAVOR_DATA_SENTENCEPIECE_H_
#define FAVOR_DATA_SENTENCEPIECE_H_

#include <memory>
#include <string>
#include <string_view>

#include "favor/data.h"
#include "favor/vocabulary.h"

namespace favor::data {

// Tokens are those of the model, one that hides a piece, and padding. Models of TrainSentencePiece
// give every text in UTF-8 back byte by byte; models from elsewhere may normalise it first. Throws
// kIo or kInvalidData.
std::shared_ptr<const Vocabulary> OpenSentencePiece(const std::string& path);
// The bytes of a model; `name` stands for the path in errors.
std::shared_ptr<const Vocabulary> ParseSentencePiece(std::string_view bytes,
                                                     const std::string& name);

struct SentencePieceTraining {
  std::string source;    // text, also as .gz
  int64_t vocab = 8000;  // pieces; fewer where the text has no more
  std::string out;       // the model's file
  // Of a longer text, parts of 1 MiB spread evenly over it are learned from. Training takes some 25
  // bytes of memory for each.
  int64_t most_bytes = 16 << 20;
};

struct SentencePieceResult {
  int64_t pieces = 0;
  int64_t bytes = 0;     // of the text that was learned from
  SplitSummary summary;  // of the same, in pieces
};

// A unigram model with all 256 bytes as pieces, for characters that are too rare for their own. The
// same text gives the same model for any number of threads.
SentencePieceResult TrainSentencePiece(const SentencePieceTraining& training);

}  // namespace favor::data

#endif  // FAVOR_DATA_SENTENCEPIECE_H_
