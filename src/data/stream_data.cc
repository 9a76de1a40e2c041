// Sequences that are windows of a long stream: text, and records that follow each other. Training
// draws windows anywhere; evaluation reads them one after the other.
#include <algorithm>

#include "core/error_text.h"
#include "data/sources.h"
#include "favor/random.h"

namespace favor::data {
namespace {

class StreamData : public StoredData {
 public:
  using StoredData::StoredData;

  int64_t Length(int64_t asked) const override {
    const int64_t length = asked == 0 ? kDefaultLength : asked;
    for (const Split split : {Split::kTrain, Split::kValid}) {
      const int64_t have = Part(split).tokens.size();
      if (have < Window(length)) {
        Throw(ErrorCode::kInvalidOption, "length",
              "given {}, expected at most {}: the {} split of '{}' has {} tokens", length,
              std::max<int64_t>(0, have - Window(0)), Name(split), Printable(stored_.source), have);
      }
    }
    return length;
  }

  Batch TrainBatch(const BatchRequest& request) const override {
    Length(CheckedRequest(request).length);
    const RandomStream stream =
        RandomStream(stored_.options.seed, "windows").Child(static_cast<uint64_t>(request.index));
    const auto places =
        static_cast<double>(Part(Split::kTrain).tokens.size() - Window(request.length) + 1);
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < request.batch; ++i)
      starts.push_back(static_cast<int64_t>(stream.Uniform(static_cast<uint64_t>(i)) * places));
    return Windows(Split::kTrain, starts, request);
  }

  int64_t Batches(Split split, int64_t batch, int64_t length) const override {
    return (Count(split, length) + batch - 1) / batch;
  }

  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    const int64_t first = CheckedRequest(request).index * request.batch;
    const int64_t last = std::min(Count(split, request.length), first + request.batch);
    std::vector<int64_t> starts;
    for (int64_t i = first; i < last; ++i) starts.push_back(i * request.length);
    return Windows(split, starts, request);
  }

 private:
  // Tokens behind a sequence: one more where each predicts the next.
  int64_t Window(int64_t length) const { return length + (causal() ? 1 : 0); }
  // Sequences that follow each other without overlap.
  int64_t Count(Split split, int64_t length) const {
    return std::max<int64_t>(0, Part(split).tokens.size() - (causal() ? 1 : 0)) / length;
  }

  Batch Windows(Split split, const std::vector<int64_t>& starts,
                const BatchRequest& request) const {
    Batch batch{.batch = static_cast<int64_t>(starts.size()), .length = request.length};
    std::vector<int32_t> window(static_cast<size_t>(Window(request.length)));
    for (const int64_t start : starts) {
      Part(split).tokens.Read(start, window);
      batch.tokens.insert(batch.tokens.end(), window.begin(), window.begin() + request.length);
      if (causal()) batch.targets.insert(batch.targets.end(), window.begin() + 1, window.end());
    }
    if (!causal()) Mask(split, request, batch);
    return batch;
  }
};

}  // namespace

std::unique_ptr<Dataset> MakeStreamData(Stored stored) {
  return std::make_unique<StreamData>(std::move(stored));
}

}  // namespace favor::data
