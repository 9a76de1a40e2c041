// Text as bytes. The last tenth is held out: half of it to validate, half to test.
#include <algorithm>

#include "core/error_text.h"
#include "data/masking.h"
#include "data/sources.h"
#include "favor/random.h"
#include "io/input_file.h"

namespace favor::data {
namespace {

constexpr int32_t kBytes = 256, kHidden = 256;
constexpr int64_t kDefaultLength = 512;

class Text : public Dataset {
 public:
  Text(const std::string& path, const DataOptions& options) : path_(path), options_(options) {
    if (options.task == "classify") {
      Throw(ErrorCode::kInvalidOption, "task",
            "given classify for the text '{}', expected causal or masked", Printable(path));
    }
    bytes_ = io::ReadRegularFile(path);
    const size_t held_out = bytes_.size() / 20;
    const size_t valid = bytes_.size() - 2 * held_out;
    parts_[0] = std::string_view(bytes_).substr(0, valid);
    parts_[1] = std::string_view(bytes_).substr(valid, held_out);
    parts_[2] = std::string_view(bytes_).substr(valid + held_out);
    if (held_out < 2) {
      Throw(ErrorCode::kInvalidData, Printable(path),
            "given {} bytes of text, expected at least 40", bytes_.size());
    }
  }

  std::string Fingerprint() const override {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char byte : bytes_) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    return fmt::format("{} bytes, {:016x}", bytes_.size(), hash);
  }
  int64_t vocab() const override { return kByteVocab; }
  int64_t classes() const override { return 0; }

  int64_t Length(int64_t asked) const override {
    const int64_t length = asked == 0 ? kDefaultLength : asked;
    for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
      const auto have = static_cast<int64_t>(Part(split).size());
      if (have < Window(length)) {
        Throw(ErrorCode::kInvalidOption, "length",
              "given {}, expected at most {}: the {} part of '{}' has {} bytes", length,
              have - Window(0), Name(split), Printable(path_), have);
      }
    }
    return length;
  }

  Batch TrainBatch(const BatchRequest& request) const override {
    Length(CheckedRequest(request).length);
    const std::string_view part = Part(Split::kTrain);
    const RandomStream stream =
        RandomStream(options_.seed, "windows").Child(static_cast<uint64_t>(request.index));
    const auto places =
        static_cast<double>(static_cast<int64_t>(part.size()) - Window(request.length) + 1);
    std::vector<size_t> starts;
    for (int64_t i = 0; i < request.batch; ++i)
      starts.push_back(static_cast<size_t>(stream.Uniform(static_cast<uint64_t>(i)) * places));
    return Windows(Split::kTrain, starts, request);
  }

  int64_t Batches(Split split, int64_t batch, int64_t length) const override {
    return (Count(split, length) + batch - 1) / batch;
  }

  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    const int64_t first = CheckedRequest(request).index * request.batch;
    const int64_t last = std::min(Count(split, request.length), first + request.batch);
    std::vector<size_t> starts;
    for (int64_t i = first; i < last; ++i)
      starts.push_back(static_cast<size_t>(i * request.length));
    return Windows(split, starts, request);
  }

 private:
  bool causal() const { return options_.task == "causal"; }
  // Bytes behind a sequence: one more where each predicts the next.
  int64_t Window(int64_t length) const { return length + (causal() ? 1 : 0); }
  std::string_view Part(Split split) const { return parts_[static_cast<size_t>(split)]; }
  // Sequences that follow each other without overlap.
  int64_t Count(Split split, int64_t length) const {
    return (static_cast<int64_t>(Part(split).size()) - (causal() ? 1 : 0)) / length;
  }

  Batch Windows(Split split, const std::vector<size_t>& starts, const BatchRequest& request) const {
    Batch batch{.batch = static_cast<int64_t>(starts.size()), .length = request.length};
    for (const size_t start : starts) {
      for (size_t i = start; i < start + static_cast<size_t>(request.length); ++i) {
        batch.tokens.push_back(static_cast<uint8_t>(Part(split)[i]));
        if (causal()) batch.targets.push_back(static_cast<uint8_t>(Part(split)[i + 1]));
      }
    }
    if (!causal()) {
      // By the number of the sequence: masks do not depend on how many share a batch.
      const RandomStream stream =
          RandomStream(options_.seed, "masks").Child(static_cast<uint64_t>(split));
      const int64_t first = request.index * request.batch;
      MaskBatch(stream, first, {.hidden = kHidden, .ordinary = kBytes}, batch);
    }
    return batch;
  }

  std::string path_;
  DataOptions options_;
  std::string bytes_;
  std::string_view parts_[3];
};

}  // namespace

std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options) {
  return std::make_unique<Text>(path, options);
}

}  // namespace favor::data
