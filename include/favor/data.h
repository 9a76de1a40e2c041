// Sequences to learn from: proteins and DNA, text, pictures, and generated tasks with known
// answers.
//
//   auto data = favor::OpenData("proteins.fasta.gz", {.task = favor::Task::kCausal});
//   favor::Batch batch = data->TrainBatch({.index = 0, .batch = 16, .length = data->Length(0)});
#ifndef FAVOR_DATA_H_
#define FAVOR_DATA_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "favor/names.h"
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
enum class Split : uint8_t { kTrain, kValid, kTest, kHeldOut, kAll };
constexpr int kSplits = 4;  // splits that divide the data: all but kAll
template <>
inline constexpr auto kNamesOf<Split> = std::to_array<std::string_view>({"train", "valid", "test",
                                                                         "held-out", "all"});

// What is asked of a sequence: the next token, tokens that were masked (15 %: of these 80 % are
// hidden, 10 % replaced by another as frequent in training, 10 % kept), or a class.
enum class Task : uint8_t { kCausal, kMasked, kClassify };
template <>
inline constexpr auto kNamesOf<Task> = std::to_array<std::string_view>({"causal", "masked",
                                                                        "classify"});

// What was done to a masked token.
enum class Masking : uint8_t { kHidden, kReplaced, kKept };
constexpr int kMaskings = 3;
template <>
inline constexpr auto kNamesOf<Masking> = std::to_array<std::string_view>({"hidden", "replaced",
                                                                           "kept"});
// Of each target, as a number; kKept if there is none. A replacement that happens to be the token
// itself was kept.
std::vector<uint8_t> Maskings(const Batch& batch, const Vocabulary& vocabulary);

// What a file holds; kAuto: what its name says.
enum class DataKind : uint8_t { kAuto, kFasta, kText, kPictures };
template <>
inline constexpr auto kNamesOf<DataKind> = std::to_array<std::string_view>({"auto", "fasta", "text",
                                                                            "pictures"});

enum class Alphabet : uint8_t { kProtein, kDna };
template <>
inline constexpr auto kNamesOf<Alphabet> = std::to_array<std::string_view>({"protein", "dna"});

// How records become sequences.
enum class Layout : uint8_t {
  kClip,  // a sequence is one record, and what lies beyond the length is never seen
  kCrop,  // a piece of one record, drawn anew each time in training; evaluation reads all pieces
  kJoin,  // records follow each other, an end token between them; sequences are windows of that
};
template <>
inline constexpr auto kNamesOf<Layout> = std::to_array<std::string_view>({"clip", "crop", "join"});

// How data is divided into splits.
enum class SplitRule : uint8_t {
  kAuto,  // kRecords; kPlace for text, and for fewer than 200 records longer than 8,192 on average
  kRecords,  // by a hash of what a record holds, so that equal ones stay together
  kPlace,    // the end is held out, the part to validate before the part to test
  kBlocks,   // one block of 8,192 tokens in 20 is held out, to validate and to test in turn, so
             // that what is held out is like what is learned from
};
template <>
inline constexpr auto kNamesOf<SplitRule> = std::to_array<std::string_view>({"auto", "records",
                                                                             "place", "blocks"});

// How a file is read and divided.
struct DataFormat {
  DataKind kind = DataKind::kAuto;
  Alphabet alphabet = Alphabet::kProtein;  // of FASTA
  Layout layout = Layout::kClip;           // of FASTA
  std::string tokenizer;                   // of text: a SentencePiece model; empty: bytes
  SplitRule split_by = SplitRule::kAuto;
  double valid = 0.05, test = 0.05;  // shares of the data; blocks have their own
  std::string held_out;  // a file with names of records, one per line, for Split::kHeldOut
};

// The kind of a source: the format's, or what the name of the file says; never kAuto.
DataKind KindOf(const std::string& source, const DataFormat& format);
// What the tokens of a source stand for, without reading it.
std::shared_ptr<const Vocabulary> VocabularyOf(const std::string& source, const DataFormat& format);

struct DataOptions {
  Task task = Task::kCausal;
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
  // How the data is divided, never kAuto; none: it is generated.
  virtual std::optional<SplitRule> SplitBy() const { return std::nullopt; }
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
