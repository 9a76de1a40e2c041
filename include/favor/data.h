// Sequences to learn from: proteins and DNA, text, pictures, and generated tasks with known
// answers.
//
//   auto data = favor::OpenData("proteins.fasta.gz", {.task = "causal"});
//   favor::Batch batch = data->TrainBatch({.index = 0, .batch = 16, .length = data->Length(0)});
#ifndef FAVOR_DATA_H_
#define FAVOR_DATA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/vocabulary.h"

namespace favor {

constexpr int32_t kNoTarget = -1;
constexpr int64_t kDefaultLength = 512;  // of sequences, if neither data nor user has another

// Sequences of one length, as a model reads them.
struct Batch {
  int64_t batch = 0, length = 0;
  std::vector<int32_t> tokens;   // [batch, length]
  std::vector<int32_t> targets;  // [batch, length], kNoTarget where nothing is asked; a
                                 // classifier's are [batch]
  std::vector<float> mask;       // [batch, length], 0: padding; empty: no padding
};

// kHeldOut: records named by a list, such as families that no other split knows. kAll: every token
// of the data, whatever its split.
enum class Split { kTrain, kValid, kTest, kHeldOut, kAll };
constexpr int kSplits = 4;           // splits that divide the data: all but kAll
std::string_view Name(Split split);  // "train", "valid", "test", "held-out", "all"
std::span<const std::string_view> SplitNames();
Split SplitNamed(std::string_view name);  // throws kInvalidOption

// What is asked of a sequence: the next token, tokens that were masked (15 %: of these 80 % are
// hidden, 10 % replaced by another as frequent in training, 10 % kept), or a class.
std::span<const std::string_view> TaskNames();  // causal, masked, classify

// What was done to a masked token.
enum class MaskKind : uint8_t { kHidden, kReplaced, kKept };
constexpr int kMaskKinds = 3;
std::string_view Name(MaskKind kind);  // "hidden", "replaced", "kept"
// Of each target, as a number; kKept if there is none. A replacement that happens to be the token
// itself was kept.
std::vector<uint8_t> MaskKinds(const Batch& batch, const Vocabulary& vocabulary);

// How a file is read and divided.
struct DataFormat {
  std::string kind = "auto";         // a name of KindNames(); auto: by the name of the file
  std::string alphabet = "protein";  // of FASTA: protein, dna
  // Of FASTA. clip: a sequence is one record, and what lies beyond the length is never seen. crop:
  // a sequence is a piece of one record, drawn anew each time in training; evaluation reads all
  // pieces. join: records follow each other with an end token between them, and sequences are
  // windows of that stream.
  std::string layout = "clip";
  std::string tokenizer;  // of text: a SentencePiece model; empty: bytes
  // How the data is divided. records: by a hash of what a record holds, so that equal ones stay
  // together. place: the end is held out, the part to validate before the part to test. blocks:
  // one block of 8,192 tokens in 20 is held out, to validate and to test in turn, so that what is
  // held out is like what is learned from. auto: records, or place for text and for FASTA of fewer
  // than 200 records that are longer than 8,192 on average.
  std::string split_by = "auto";
  double valid = 0.05, test = 0.05;  // shares of the data; blocks have their own
  std::string held_out;  // a file with names of records, one a line, for Split::kHeldOut
};
std::span<const std::string_view> KindNames();       // auto, fasta, text, pictures
std::span<const std::string_view> LayoutNames();     // clip, crop, join
std::span<const std::string_view> SplitRuleNames();  // auto, records, place, blocks
std::span<const std::string_view> AlphabetNames();   // protein, dna

// The kind of a source: the format's, or what the name of the file says.
std::string KindOf(const std::string& source, const DataFormat& format);
// What the tokens of a source stand for, without reading it.
std::shared_ptr<const Vocabulary> VocabularyOf(const std::string& source, const DataFormat& format);

struct DataOptions {
  std::string task = "causal";
  uint64_t seed = 0;  // of what is drawn: windows, orders, masks, generated sequences
  DataFormat format;
};

// What a split holds.
struct SplitSummary {
  int64_t records = 0, tokens = 0;     // of records alone, without special tokens
  int64_t words = 0;                   // of text: what white space separates
  int64_t characters = 0;              // of text: code points
  std::map<int64_t, int64_t> lengths;  // tokens of a record → how many have so many

  int64_t Shortest() const;
  int64_t Longest() const;
  double MeanLength() const;
  double LengthDeviation() const;
  double MedianLength() const;
  // What a mean loss of tokens is multiplied by to be one of words or characters: perplexity of
  // words is e^(loss · TokensPerWord()) (Choromanski et al. 2021, A.1.1). 0 where there are none.
  double TokensPerWord() const;
  double TokensPerCharacter() const;
  // Tokens of records beyond the first `length` of each, as a share of all.
  double ShareBeyond(int64_t length) const;
};

struct BatchRequest {
  int64_t index = 0;  // which batch
  int64_t batch = 1, length = 1;
};

// Batches are pure functions of (source, options, request): nothing remembers where a run stands.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Tells data apart, with how it is divided and what its tokens stand for: a run is resumed only
  // with the data that it began with.
  virtual std::string Fingerprint() const { return ""; }
  // Tells what the files hold apart, however it is divided and tokenized.
  virtual std::string Content() const { return ""; }
  // How the data is divided: a name of SplitRuleNames(), never auto; empty: generated.
  virtual std::string_view SplitBy() const { return ""; }
  // What all sequences have in common: "28 × 28 × 1" (height, width, channels) of pictures.
  virtual std::string Shape() const { return ""; }
  // How often each token is a target of the train split, [vocab]; empty: not known.
  virtual std::vector<int64_t> TrainCounts() const { return {}; }
  // What tokens stand for; null: nothing that could be written.
  virtual const Vocabulary* vocabulary() const { return nullptr; }
  virtual std::string_view Unit() const { return "token"; }  // a token: byte, residue, dimension
  virtual SplitSummary Summary(Split) const { return {}; }
  virtual int64_t vocab() const = 0;    // tokens are 0 … vocab − 1
  virtual int64_t classes() const = 0;  // 0: targets are tokens
  // The length of sequences: the one asked for, or the task's own (0 asks for a default). Throws
  // kInvalidOption where it cannot be.
  virtual int64_t Length(int64_t asked) const = 0;
  virtual Batch TrainBatch(const BatchRequest& request) const = 0;
  // Batches to evaluate on; the last may be smaller. The sequences of a split come in an order that
  // is drawn once and for all, the same for every model: the first batches are a fair sample.
  // Generated tasks have 4096 sequences a split, and nothing for kAll.
  virtual int64_t Batches(Split split, int64_t batch, int64_t length) const = 0;
  virtual Batch EvalBatch(Split split, const BatchRequest& request) const = 0;
};

// A file — FASTA, text, pictures, the first two also as .gz —, a folder of files of one kind,
// several files with commas between them, "-" for standard input, or "task:NAME,key=value,…": copy
// (length, symbols), recall (pairs, distance, mixed, questions, symbols), listops (length, depth).
// Files are not held in memory: what cannot be read in place is written as tokens to files without
// a name in $TMPDIR (/var/tmp), which vanish with the Dataset. Throws where there is no such file
// or task, the task of the options does not fit, or a file is damaged.
std::unique_ptr<Dataset> OpenData(const std::string& source, const DataOptions& options);

}  // namespace favor

#endif  // FAVOR_DATA_H_
