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
constexpr int64_t kDefaultLength = 512;  // if neither data nor user sets another

// Sequences of one length, as a model reads them.
struct Batch {
  int64_t batch = 0, length = 0;
  std::vector<int32_t> tokens;  // [batch, length]
  // [batch, length], kNoTarget where nothing is predicted; classes of sequences: [batch].
  std::vector<int32_t> targets;
  std::vector<float> mask;  // [batch, length], 0: padding; empty: no padding
  // Regression: the numbers to predict, in place of targets: [batch], or [batch, length] for labels
  // of tokens; NaN where there is none.
  std::vector<float> values;
};
// Tokens, classes or numbers that a batch asks for.
int64_t CountTargets(const Batch& batch);

// kHeldOut: records named by a list, such as families that are in no other split. kAll: every token
// of the data, whatever its split.
enum class Split : uint8_t { kTrain, kValid, kTest, kHeldOut, kAll };
constexpr int kSplits = 4;  // splits that divide the data: all but kAll
template <>
inline constexpr auto kNamesOf<Split> = std::to_array<std::string_view>({"train", "valid", "test",
                                                                         "held-out", "all"});

// What is predicted: the next token, tokens that were masked (15 %: of these 80 % are hidden, 10 %
// replaced by another as frequent in training, 10 % kept), a class, or a number.
enum class Task : uint8_t { kCausal, kMasked, kClassify, kRegress };
template <>
inline constexpr auto kNamesOf<Task> = std::to_array<std::string_view>({"causal", "masked",
                                                                        "classify", "regress"});

// Whether labels are learned, which a table or a generated task gives.
constexpr bool HasLabels(Task task) { return task == Task::kClassify || task == Task::kRegress; }

// What a label belongs to.
enum class LabelOf : uint8_t { kSequence, kToken };
template <>
inline constexpr auto kNamesOf<LabelOf> = std::to_array<std::string_view>({"sequence", "token"});

// What was done to a masked token.
enum class Masking : uint8_t { kHidden, kReplaced, kKept };
constexpr int kMaskings = 3;
template <>
inline constexpr auto kNamesOf<Masking> = std::to_array<std::string_view>({"hidden", "replaced",
                                                                           "kept"});
// The masking of each position of the targets, as a number; kKept if there is no target. A
// replacement that happens to be the token itself counts as kept.
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
  kClip,  // a sequence is one record, and what lies beyond the length is never read
  kCrop,  // a piece of one record, drawn anew each time in training; evaluation reads all pieces
  kJoin,  // records follow each other with an end token in between; sequences are windows of that
};
template <>
inline constexpr auto kNamesOf<Layout> = std::to_array<std::string_view>({"clip", "crop", "join"});

// How data is divided into splits.
enum class SplitRule : uint8_t {
  kAuto,  // kRecords; kPlace for text, and for fewer than 200 records longer than 8,192 on average
  kRecords,     // by a hash of what a record holds, so that equal records stay together
  kPlace,       // the end is held out: first the valid split, then the test split
  kBlocks,      // one block of 8,192 tokens in 20 is held out, for the valid and the test split in
                // turn, so that what is held out is like what is learned from
  kClusters,    // by the cluster of a record: relatives stay together
  kFiles,       // each split has files of its own
  kStratified,  // by a hash among the records of the same class, of each class in the same shares;
                // equal records of different classes may part
};
template <>
inline constexpr auto kNamesOf<SplitRule> = std::to_array<std::string_view>(
    {"auto", "records", "place", "blocks", "clusters", "files", "stratified"});

// How a file is read and divided.
struct DataFormat {
  DataKind kind = DataKind::kAuto;
  Alphabet alphabet = Alphabet::kProtein;  // FASTA only
  Layout layout = Layout::kClip;           // FASTA only
  std::string tokenizer;                   // text only: a SentencePiece model; empty: bytes
  SplitRule split_by = SplitRule::kAuto;
  double valid = 0.05, test = 0.05;  // shares of the data; kBlocks ignores them
  std::string held_out;  // a file with names of records, one per line, for Split::kHeldOut
  // FASTA only: a file with the clusters of records, for kClusters: lines
  // "representative<tab>member" (mmseqs) or the .clstr of CD-HIT. Every record must be in one.
  std::string clusters;
  // FASTA only, for kFiles: what the valid and the test split hold. Without valid_data, that split
  // is a share of the data.
  std::string valid_data, test_data;
  // FASTA only: a table of labels to learn, by the names of records; those that it does not name
  // are left out. Its format: docs/file_formats.md.
  std::string labels;
  LabelOf label_of = LabelOf::kSequence;

  // The same without what divides the data: all of it is one split.
  DataFormat Undivided() const;
};

// The kind of a source: the format's, or what the name of the file says; never kAuto.
DataKind KindOf(const std::string& source, const DataFormat& format);
// What the tokens of a source stand for, without reading it.
std::shared_ptr<const Vocabulary> VocabularyOf(const std::string& source, const DataFormat& format);

// Numbers to predict are (label − mean)/deviation, both of the train split.
struct LabelScale {
  double mean = 0, deviation = 1;

  double Unscaled(double scaled) const { return scaled * deviation + mean; }
  bool operator==(const LabelScale&) const = default;
};

struct DataOptions {
  Task task = Task::kCausal;
  uint64_t seed = 0;     // for all that is drawn: windows, orders, masks, generated sequences
  bool decoder = false;  // labels: sequences begin as decoders read them
  // Labels as a model knows them: its classes, and no others, and its scale. Otherwise the table
  // says which classes there are, and the train split how numbers are scaled.
  std::vector<std::string> classes;
  std::optional<LabelScale> scale;
  DataFormat format;
};

// What a split holds.
struct SplitSummary {
  int64_t records = 0, tokens = 0;     // tokens of the records, without special tokens
  int64_t words = 0;                   // text only: what white space separates
  int64_t characters = 0;              // text only: code points
  std::map<int64_t, int64_t> lengths;  // tokens in a record → number of such records

  int64_t Shortest() const;
  int64_t Longest() const;
  double MeanLength() const;
  double LengthDeviation() const;
  double MedianLength() const;
  // Factors that turn a mean loss per token into one per word or per character: the perplexity of
  // words is e^(loss · TokensPerWord()) (Choromanski et al. 2021, A.1.1). 0 if there are none.
  double TokensPerWord() const;
  double TokensPerCharacter() const;
  // Tokens of records beyond the first `length` of each, as a share of all.
  double ShareBeyond(int64_t length) const;
};

struct BatchRequest {
  int64_t index = 0;  // which batch
  int64_t batch = 1, length = 1;
};

// Batches are pure functions of (source, options, request): no position in the data is remembered.
// They may be asked for from several threads at once: a trainer on a GPU has the next ones made
// while a step runs.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Identifies the data, how it is divided and what its tokens stand for: a run is resumed only
  // with the data that it began with.
  virtual std::string Fingerprint() const { return ""; }
  // Identifies the contents of the files, however they are divided and tokenized.
  virtual std::string Content() const { return ""; }
  // How the data is divided, never kAuto; nullopt: it is generated.
  virtual std::optional<SplitRule> SplitBy() const { return std::nullopt; }
  // What all sequences have in common: "28 × 28 × 1" (height, width, channels) for pictures.
  virtual std::string Shape() const { return ""; }
  // How often each token is a target of the train split, [vocab]; empty: not known.
  virtual std::vector<int64_t> TrainCounts() const { return {}; }
  // What tokens stand for; null: nothing that can be written as text.
  virtual const Vocabulary* vocabulary() const { return nullptr; }
  // What a token is: "byte", "residue", "dimension".
  virtual std::string_view Unit() const { return "token"; }
  virtual SplitSummary Summary(Split) const { return {}; }
  virtual int64_t vocab() const = 0;    // tokens are 0 … vocab − 1
  virtual int64_t classes() const = 0;  // 0: targets are tokens; of numbers to predict, 1
  // What classes stand for; empty: nothing but their numbers.
  virtual std::vector<std::string> ClassNames() const { return {}; }
  // How often each class occurs in the train split; empty: not known.
  virtual std::vector<int64_t> ClassCounts() const { return {}; }
  bool PredictsNumbers() const { return classes() == 1; }
  virtual LabelScale Scale() const { return {}; }
  // The length of sequences: the requested one, or the task's own (0 requests the default). Throws
  // kInvalidOption if the requested one is impossible.
  virtual int64_t Length(int64_t asked) const = 0;
  virtual Batch TrainBatch(const BatchRequest& request) const = 0;
  // Batches to evaluate on; the last may be smaller. The sequences of a split come in an order that
  // is drawn once and is the same for every model: the first batches are a fair sample. Generated
  // tasks have 4096 sequences per split, and none for kAll.
  virtual int64_t Batches(Split split, int64_t batch, int64_t length) const = 0;
  virtual Batch EvalBatch(Split split, const BatchRequest& request) const = 0;
};

// A file — FASTA, text, pictures, the first two also as .gz —, a folder of files of one kind,
// several files separated by commas, "-" for standard input, or "task:NAME,key=value,…": copy
// (length, symbols), recall (pairs, distance, mixed, questions, symbols), listops (length, depth).
// Files are not held in memory: what cannot be read in place is written as tokens to unnamed files
// in $TMPDIR (/var/tmp), which vanish with the Dataset. Throws if there is no such file or task, if
// the task of the options does not fit, or if a file is damaged.
std::unique_ptr<Dataset> OpenData(const std::string& source, const DataOptions& options);

}  // namespace favor

#endif  // FAVOR_DATA_H_
