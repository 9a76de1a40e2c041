// Sequences that are whole records, cut at the length: proteins, pictures. Training goes through
// all of them in an order that is drawn anew for each round; evaluation reads them as they are
// stored.
#include <algorithm>

#include "core/error_text.h"
#include "data/permutation.h"
#include "data/sources.h"

namespace favor::data {
namespace {

class RecordData : public StoredData {
 public:
  explicit RecordData(Stored stored)
      : StoredData(std::move(stored)), special_(stored_.vocabulary->special()) {}

  int64_t Length(int64_t asked) const override {
    for (const Split split : {Split::kTrain, Split::kValid}) {
      if (Part(split).records() == 0) {
        Throw(ErrorCode::kInvalidData, Printable(stored_.source),
              "the {} split holds no record: more records, or other shares, are needed",
              Name(split));
      }
    }
    if (stored_.length == 0) return asked == 0 ? kDefaultLength : asked;
    if (asked != 0 && asked != stored_.length) {
      Throw(ErrorCode::kInvalidOption, "length", "given {}, expected {}: so long is each of '{}'",
            asked, stored_.length, Printable(stored_.source));
    }
    return stored_.length;
  }

  Batch TrainBatch(const BatchRequest& request) const override {
    Length(CheckedRequest(request).length == stored_.length ? 0 : request.length);
    const int64_t records = Part(Split::kTrain).records();
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < request.batch; ++i) {
      const int64_t place = request.index * request.batch + i;
      const Permutation order(RandomStream(stored_.options.seed, "order of records")
                                  .Child(static_cast<uint64_t>(place / records)),
                              records);
      chosen.push_back(order.At(place % records));
    }
    return Rows(Split::kTrain, chosen, request);
  }

  int64_t Batches(Split split, int64_t batch, int64_t) const override {
    return (Part(split).records() + batch - 1) / batch;
  }

  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    const int64_t first = CheckedRequest(request).index * request.batch;
    std::vector<int64_t> chosen;
    for (int64_t i = first; i < std::min(Part(split).records(), first + request.batch); ++i)
      chosen.push_back(i);
    return Rows(split, chosen, request);
  }

 private:
  // causal: "<begin> a b c" is asked for "a b c <end>". masked: "a b c".
  Batch Rows(Split split, const std::vector<int64_t>& records, const BatchRequest& request) const {
    const auto length = static_cast<size_t>(request.length);
    Batch batch{.batch = static_cast<int64_t>(records.size()), .length = request.length};
    for (const int64_t index : records) {
      std::vector<int32_t> row = Part(split).Record(index, request.length);
      if (causal()) {
        std::vector<int32_t> targets = row;
        if (targets.size() < length && special_.end) targets.push_back(*special_.end);
        targets.resize(length, kNoTarget);
        batch.targets.insert(batch.targets.end(), targets.begin(), targets.end());
        row.insert(row.begin(), *special_.begin);
        if (row.size() > length) row.pop_back();
      }
      const size_t used = row.size();
      row.resize(length, special_.padding);
      batch.tokens.insert(batch.tokens.end(), row.begin(), row.end());
      // What comes after all targets is seen by none of them: causal batches need no mask.
      if (!causal()) {
        batch.mask.insert(batch.mask.end(), used, 1.0f);
        batch.mask.insert(batch.mask.end(), length - used, 0.0f);
      }
    }
    if (!causal()) Mask(split, request, batch);
    return batch;
  }

  SpecialTokens special_;
};

}  // namespace

std::unique_ptr<Dataset> MakeRecordData(Stored stored) {
  return std::make_unique<RecordData>(std::move(stored));
}

}  // namespace favor::data
