// What kinds of data whose tokens lie on disk have in common.
#ifndef FAVOR_DATA_STORED_DATA_H_
#define FAVOR_DATA_STORED_DATA_H_

#include <memory>
#include <string>
#include <string_view>

#include "data/token_store.h"
#include "favor/data.h"

namespace favor::data {

struct Stored {
  std::string source;  // for errors
  DataOptions options;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::string_view unit;  // that a token stands for
  StoredSplits splits;
  std::string fingerprint;
  int64_t length = 0;  // of every sequence; 0: the caller's choice
  std::string shape;   // of pictures; see Dataset::Shape
};

class StoredData : public Dataset {
 public:
  explicit StoredData(Stored stored) : stored_(std::move(stored)) {}

  std::string Fingerprint() const override { return stored_.fingerprint; }
  const Vocabulary* vocabulary() const override { return stored_.vocabulary.get(); }
  std::string_view Unit() const override { return stored_.unit; }
  std::string Shape() const override { return stored_.shape; }
  SplitSummary Summary(Split split) const override { return Part(split).summary; }
  int64_t vocab() const override { return stored_.vocabulary->size(); }
  int64_t classes() const override { return 0; }

 protected:
  static constexpr int64_t kDefaultLength = 512;

  bool causal() const { return stored_.options.task == "causal"; }
  const StoredSplit& Part(Split split) const { return stored_.splits[static_cast<size_t>(split)]; }
  // Hides tokens of a batch that holds the sequences of a request. By the number of a sequence:
  // masks do not depend on how many share a batch.
  void Mask(Split split, const BatchRequest& request, Batch& batch) const;

  Stored stored_;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_STORED_DATA_H_
