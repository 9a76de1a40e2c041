// SentencePiece logs to stderr unless it is told not to.
#ifndef FAVOR_DATA_SENTENCEPIECE_LOG_H_
#define FAVOR_DATA_SENTENCEPIECE_LOG_H_

namespace favor::data {

void QuietSentencePiece();

}  // namespace favor::data

#endif  // FAVOR_DATA_SENTENCEPIECE_LOG_H_
