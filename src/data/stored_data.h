// What all kinds of data with tokens on disk have in common.
#ifndef FAVOR_DATA_STORED_DATA_H_
#define FAVOR_DATA_STORED_DATA_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_store.h"
#include "favor/data.h"

namespace favor::data {

struct Stored {
  std::string source;  // for errors
  DataOptions options;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::string_view unit;  // what a token stands for
  StoredSplits splits;
  std::string fingerprint, content;
  SplitRule split_by = SplitRule::kRecords;
  std::string shape;                  // size of pictures
  std::vector<int64_t> train_counts;  // how often each token occurs in the train split
  int64_t length = 0;                 // length of every sequence; 0: the caller's choice
  // Labels: what classes stand for, or how numbers are scaled.
  std::vector<std::string> class_names;
  std::vector<int64_t> class_counts;  // of the train split
  LabelScale scale;
};

class StoredData : public Dataset {
 public:
  explicit StoredData(Stored stored);

  std::string Fingerprint() const override { return stored_.fingerprint; }
  std::string Content() const override { return stored_.content; }
  std::optional<SplitRule> SplitBy() const override { return stored_.split_by; }
  std::string Shape() const override { return stored_.shape; }
  std::vector<int64_t> TrainCounts() const override { return stored_.train_counts; }
  const Vocabulary* vocabulary() const override { return stored_.vocabulary.get(); }
  std::string_view Unit() const override { return stored_.unit; }
  SplitSummary Summary(Split split) const override;
  int64_t vocab() const override { return stored_.vocabulary->size(); }
  int64_t classes() const override {
    return stored_.options.task == Task::kRegress ? 1 : std::ssize(stored_.class_names);
  }
  std::vector<std::string> ClassNames() const override { return stored_.class_names; }
  std::vector<int64_t> ClassCounts() const override { return stored_.class_counts; }
  LabelScale Scale() const override { return stored_.scale; }

 protected:
  bool causal() const { return stored_.options.task == Task::kCausal; }
  bool labelled() const { return !stored_.options.format.labels.empty(); }
  const StoredSplit& Part(Split split) const { return stored_.splits[static_cast<size_t>(split)]; }
  // The parts that make up a split: one, or all of them for kAll.
  std::span<const StoredSplit> Parts(Split split) const;
  // The sequence that comes as number `place` when the `count` sequences of a split are evaluated.
  static int64_t InOrder(Split split, int64_t place, int64_t count);
  // Hides tokens of a batch that holds the sequences of a request. A mask follows from the number
  // of its sequence: it does not depend on how many sequences share a batch.
  void Mask(Split split, const BatchRequest& request, Batch& batch) const;

  Stored stored_;

 private:
  std::vector<int64_t>
      reached_;  // running sums of train_counts over ordinary tokens: see MaskTokens
};

}  // namespace favor::data

#endif  // FAVOR_DATA_STORED_DATA_H_
