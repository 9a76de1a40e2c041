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
// reproduce every text in UTF-8 byte by byte; other models may normalise it first. Throws kIo or
// kInvalidData.
std::shared_ptr<const Vocabulary> OpenSentencePiece(const std::string& path);
// The bytes of a model; `name` stands for the path in errors.
std::shared_ptr<const Vocabulary> ParseSentencePiece(std::string_view bytes,
                                                     const std::string& name);

struct SentencePieceTraining {
  std::string source;    // text, also as .gz
  int64_t vocab = 8000;  // pieces; fewer if the text has no more
  std::string out;       // the model's file
  // If the text is longer, training uses parts of 1 MiB spread evenly over it. It takes about 25
  // bytes of memory per byte of text.
  int64_t most_bytes = 16 << 20;
};

struct SentencePieceResult {
  int64_t pieces = 0;
  int64_t bytes = 0;     // bytes of the text that was used
  SplitSummary summary;  // the same text in pieces
};

// Trains a unigram model with all 256 bytes as pieces, for characters that are too rare for their
// own piece. The same text gives the same model for any number of threads.
SentencePieceResult TrainSentencePiece(const SentencePieceTraining& training);

}  // namespace favor::data

#endif  // FAVOR_DATA_SENTENCEPIECE_H_
