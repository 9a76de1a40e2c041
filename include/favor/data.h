// Sequences to learn from: text as bytes, and generated tasks with known answers.
//
//   auto data = favor::OpenData("task:recall,pairs=8,distance=512", {.task = "causal"});
//   favor::Batch batch = data->TrainBatch({.index = 0, .batch = 16, .length = data->Length(0)});
#ifndef FAVOR_DATA_H_
#define FAVOR_DATA_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace favor {

constexpr int32_t kNoTarget = -1;
constexpr int64_t kByteVocab = 258;  // of text: bytes, one token that hides a byte, and padding

// Sequences of one length, as a model reads them.
struct Batch {
  int64_t batch = 0, length = 0;
  std::vector<int32_t> tokens;   // [batch, length]
  std::vector<int32_t> targets;  // [batch, length], kNoTarget where nothing is asked; a
                                 // classifier's are [batch]
  std::vector<float> mask;       // [batch, length], 0: padding; empty: no padding
};

enum class Split { kTrain, kValid, kTest };
std::string_view Name(Split split);  // "train", "valid", "test"
std::span<const std::string_view> SplitNames();
Split SplitNamed(std::string_view name);  // throws kInvalidOption

// What is asked of a sequence: the next token, tokens that were masked (15 %: of these 80 % are
// hidden, 10 % replaced, 10 % left), or a class.
std::span<const std::string_view> TaskNames();  // causal, masked, classify

struct DataOptions {
  std::string task = "causal";
  uint64_t seed = 0;  // of what is drawn: windows, masks, generated sequences
};

struct BatchRequest {
  int64_t index = 0;  // which batch
  int64_t batch = 1, length = 1;
};

// Batches are pure functions of (source, options, request): nothing remembers where a run stands.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Tells data apart: a run is resumed only with the data that it began with.
  virtual std::string Fingerprint() const { return ""; }
  virtual int64_t vocab() const = 0;    // tokens are 0 … vocab − 1
  virtual int64_t classes() const = 0;  // 0: targets are tokens
  // The length of sequences: the one asked for, or the task's own (0 asks for a default). Throws
  // kInvalidOption where it cannot be.
  virtual int64_t Length(int64_t asked) const = 0;
  virtual Batch TrainBatch(const BatchRequest& request) const = 0;
  // Batches to evaluate on; the last may be smaller. Generated tasks have 4096 sequences a split.
  virtual int64_t Batches(Split split, int64_t batch, int64_t length) const = 0;
  virtual Batch EvalBatch(Split split, const BatchRequest& request) const = 0;
};

// A file of text, or "task:NAME,key=value,…": copy (length, symbols), recall (pairs, distance,
// mixed, questions, symbols), listops (length, depth). Throws where there is no such file or task,
// or the task of the options does not fit.
std::unique_ptr<Dataset> OpenData(const std::string& source, const DataOptions& options);

}  // namespace favor

#endif  // FAVOR_DATA_H_
