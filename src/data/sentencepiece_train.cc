// Learns pieces from text. SentencePiece ends the process if its training fails, so it only gets
// input on which it cannot fail.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/error_text.h"
#include "core/utf8.h"
#include "data/input_files.h"
#include "data/sentencepiece.h"
#include "data/sentencepiece_log.h"
#include "data/text_file.h"
#include "io/atomic_file.h"

namespace favor::data {
namespace {

constexpr int64_t kMetaPieces = 257;  // the bytes, and the unknown piece
constexpr double kCoverage = 0.9995;  // share of a text whose characters have their own pieces
// SentencePiece divides its work, and with it sums of floats, by the number of threads: a fixed
// number gives the same model everywhere.
constexpr int kThreads = 16;
// Likelihoods of longer sentences overflow.
constexpr size_t kLongestSentence = 1024;
// The trainer drops pieces whose expected count is below one half; with few sentences these may be
// all pieces.
constexpr size_t kFewestSentences = 1000;

struct Part {
  int64_t begin, end;
};

// The whole file, or parts spread evenly over it.
std::vector<Part> Sample(const io::InputFile& file, int64_t most_bytes) {
  constexpr int64_t kPart = 1 << 20;
  const auto size = static_cast<int64_t>(file.Size().value_or(0));
  if (size <= most_bytes) return {{0, size}};
  std::vector<Part> parts;
  const int64_t count = std::max<int64_t>(1, most_bytes / kPart);
  const int64_t length = std::min(kPart, most_bytes);
  for (int64_t i = 0; i < count; ++i) {
    // In f64: the product of two lengths might not fit 64 bits.
    const auto at =
        static_cast<int64_t>(static_cast<double>(size - length) * static_cast<double>(i) /
                             static_cast<double>(std::max<int64_t>(1, count - 1)));
    const int64_t begin = NextBoundary(file, at, size);
    const int64_t end = NextBoundary(file, std::min(size, at + length), size);
    if (begin < end) parts.push_back({begin, end});
  }
  return parts;
}

// The sentences of a text, without control characters and the two characters that SentencePiece
// reserves for itself, and none too long.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  void Add(std::string_view text) {
    while (!text.empty()) {
      const size_t bytes = CodePointBytes(text);
      const std::string_view point = text.substr(0, bytes);
      const auto first = static_cast<unsigned char>(point[0]);
      if (first < ' ' || first == 0x7f || point == "\u2581" || point == "\u2585") {
        Finish();
      } else {
        if (sentence_.size() + bytes > kLongestSentence) Finish();
        sentence_ += point;
        ++counts_[Code(point)];
      }
      text.remove_prefix(bytes);
    }
  }
  void Finish() {
    if (!sentence_.empty()) sentences_.push_back(std::move(sentence_));
    sentence_.clear();
  }
  bool empty() const { return sentences_.empty(); }

  // The number of characters that get their own piece, as the trainer counts them.
  int64_t Characters() const {
    std::vector<int64_t> counts;
    for (const auto& [code, count] : counts_) counts.push_back(count);
    std::ranges::sort(counts, std::greater());
    double all = 0, covered = 0;
    for (const int64_t count : counts) all += static_cast<double>(count);
    int64_t characters = 0;
    for (const int64_t count : counts) {
      if (covered / all >= kCoverage) break;
      covered += static_cast<double>(count);
      ++characters;
    }
    return characters;
  }

  // Visits all sentences, several times if they are few.
  bool done() const override {
    return round_ * sentences_.size() >= kFewestSentences && round_ > 0;
  }
  void Next() override {
    if (++at_ < sentences_.size()) return;
    at_ = 0;
    ++round_;
  }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  static uint32_t Code(std::string_view point) {
    uint32_t code = 0;
    for (const char c : point) code = code << 8 | static_cast<unsigned char>(c);
    return code;
  }

  std::string sentence_;
  std::vector<std::string> sentences_;
  std::unordered_map<uint32_t, int64_t> counts_;
  size_t at_ = 0, round_ = 0;
};

std::string Train(Sentences& sentences, int64_t vocab, const std::string& who) {
  // Seeds are candidates, of which training prunes a quarter at a time. The usual million costs
  // many more rounds if few pieces are wanted.
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(vocab)},
      {"hard_vocab_limit", "false"},
      {"character_coverage", std::to_string(kCoverage)},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"byte_fallback", "true"},
      {"required_chars", "\xE2\x96\x81"},  // a space, which the text may lack
      {"unk_id", "0"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"max_sentence_length", std::to_string(4 * kLongestSentence)},
      {"seed_sentencepiece_size", std::to_string(std::clamp<int64_t>(20 * vocab, 1000, 1'000'000))},
      {"num_threads", std::to_string(kThreads)},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model);
  if (!status.ok())
    Throw(ErrorCode::kInvalidData, Printable(who), "no pieces can be learned: {}",
          Printable(status.message()));
  return model;
}

}  // namespace

void QuietSentencePiece() {
  // The log level is set while options are read; the training itself has no input and fails.
  static std::once_flag once;
  std::call_once(once, [] {
    const std::unordered_map<std::string, std::string> level = {{"minloglevel", "3"}};
    sentencepiece::SentencePieceTrainer::Train(level).IgnoreError();
  });
}

SentencePieceResult TrainSentencePiece(const SentencePieceTraining& training) {
  const auto file = InputFiles(training.source).Plain();
  const std::vector<Part> parts = Sample(*file, training.most_bytes);
  Sentences sentences;
  for (const Part& part : parts) {
    ForEachRun(*file, part.begin, part.end, [&](std::string_view run, int64_t place) {
      CheckUtf8(run, training.source, place);
      sentences.Add(run);
    });
    sentences.Finish();
  }
  if (sentences.empty())
    Throw(ErrorCode::kInvalidData, Printable(training.source), "there is no text to learn from");
  const int64_t least = kMetaPieces + sentences.Characters() + 1;
  if (training.vocab < least) {
    Throw(ErrorCode::kInvalidOption, "vocab",
          "given {} pieces for '{}', expected at least {}: {} of bytes and the unknown, {} of "
          "characters",
          training.vocab, Printable(training.source), least, kMetaPieces, least - kMetaPieces - 1);
  }
  io::AtomicFile out(training.out);
  QuietSentencePiece();
  const std::string model = Train(sentences, training.vocab, training.source);
  const auto vocabulary = ParseSentencePiece(model, training.out);

  SentencePieceResult result{.pieces = vocabulary->ordinary()};
  result.summary.records = static_cast<int64_t>(parts.size());
  TextCounter counter;
  for (const Part& part : parts) {
    int64_t tokens = 0;
    ForEachRun(*file, part.begin, part.end, [&](std::string_view run, int64_t) {
      counter.Add(run);
      tokens += static_cast<int64_t>(vocabulary->Encode(run, training.source).size());
    });
    result.bytes += part.end - part.begin;
    result.summary.tokens += tokens;
    ++result.summary.lengths[tokens];
  }
  counter.Store(result.summary);
  out.Write(model);
  out.Commit();
  return result;
}

}  // namespace favor::data
