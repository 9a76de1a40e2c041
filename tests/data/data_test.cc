// Text and generated tasks: what a batch holds, and that it is a pure function of the request.
#include "favor/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "data/generated.h"
#include "favor/error.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

std::string Digits(size_t count) {
  std::string text;
  while (text.size() < count) text += std::to_string(text.size()) + " ";
  return text.substr(0, count);
}

class TextData : public testing::Test {
 protected:
  TextData() { WriteText(path_, Digits(10000)); }
  std::unique_ptr<Dataset> Open(Task task) { return OpenData(path_, {.task = task}); }

  TempDir dir_;
  std::string path_ = dir_ / "text";
};

TEST_F(TextData, EachByteIsAskedForTheNext) {
  const auto data = Open(Task::kCausal);
  EXPECT_EQ(data->vocab(), 258);
  const Batch batch = data->TrainBatch({.index = 3, .batch = 4, .length = 50});
  ASSERT_EQ(batch.tokens.size(), 200u);
  const std::string text = Digits(10000);
  for (size_t sequence = 0; sequence < 4; ++sequence) {
    std::string seen;
    for (size_t i = 0; i < 50; ++i) {
      seen += static_cast<char>(batch.tokens[sequence * 50 + i]);
      if (i > 0) {
        EXPECT_EQ(batch.targets[sequence * 50 + i - 1], batch.tokens[sequence * 50 + i]);
      }
    }
    const size_t at = text.find(seen);
    ASSERT_NE(at, std::string::npos);
    EXPECT_LT(at + 50, 9000u) << "a window reaches into what is held out";
  }
  const Batch again = data->TrainBatch({.index = 3, .batch = 4, .length = 50});
  EXPECT_EQ(batch.tokens, again.tokens);
  EXPECT_NE(batch.tokens, data->TrainBatch({.index = 4, .batch = 4, .length = 50}).tokens);
}

// Every byte of the held-out parts except the first is a target once, after the byte before it; no
// window reaches into another part. 499 bytes: 12 windows of 40 and one of 19.
TEST_F(TextData, HeldOutPartsAreReadOnceAndApart) {
  const auto data = Open(Task::kCausal);
  const std::string text = Digits(10000);
  for (const auto& [split, begin] :
       std::map<Split, size_t>{{Split::kValid, 9000}, {Split::kTest, 9500}}) {
    std::map<size_t, std::string> windows;  // by place
    std::vector<size_t> order;
    for (int64_t i = 0; i < data->Batches(split, 3, 40); ++i) {
      const Batch batch = data->EvalBatch(split, {.index = i, .batch = 3, .length = 40});
      for (size_t row = 0; row < batch.tokens.size(); row += 40) {
        std::string seen(1, static_cast<char>(batch.tokens[row]));
        for (size_t j = row; j < row + 40 && batch.targets[j] != kNoTarget; ++j) {
          EXPECT_EQ(batch.tokens[j], static_cast<unsigned char>(seen.back()));
          seen += static_cast<char>(batch.targets[j]);
        }
        const size_t at = text.find(seen, begin);
        ASSERT_NE(at, std::string::npos);
        order.push_back(at);
        windows[at] = seen;
      }
    }
    ASSERT_EQ(windows.size(), 13u);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end())) << "the first windows are a sample";
    std::string all = windows.begin()->second.substr(0, 1);
    for (const auto& [at, seen] : windows) {
      EXPECT_EQ(at, begin + all.size() - 1);
      all += seen.substr(1);
    }
    EXPECT_EQ(all, text.substr(begin, 500));
  }
}

// One order for every model and every size of batches.
TEST_F(TextData, TheOrderOfEvaluationIsTheSameForAll) {
  const auto data = Open(Task::kCausal), other = OpenData(path_, {.seed = 9});
  std::vector<int32_t> one, three;
  for (int64_t i = 0; i < 12; ++i) {
    const Batch batch = data->EvalBatch(Split::kValid, {.index = i, .batch = 1, .length = 40});
    one.insert(one.end(), batch.tokens.begin(), batch.tokens.end());
  }
  for (int64_t i = 0; i < 4; ++i) {
    const Batch batch = other->EvalBatch(Split::kValid, {.index = i, .batch = 3, .length = 40});
    three.insert(three.end(), batch.tokens.begin(), batch.tokens.end());
  }
  EXPECT_EQ(one, three);
}

// Masked windows of 500 bytes: the last is padded, and padding is never a target.
TEST_F(TextData, ShortWindowsArePadded) {
  const auto data = Open(Task::kMasked);
  ASSERT_EQ(data->Batches(Split::kValid, 100, 300), 1);
  const Batch batch = data->EvalBatch(Split::kValid, {.index = 0, .batch = 100, .length = 300});
  ASSERT_EQ(batch.batch, 2);
  int64_t padding = 0;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_EQ(batch.mask[i] == 0, batch.tokens[i] == 257);
    padding += batch.mask[i] == 0 ? 1 : 0;
    EXPECT_TRUE(batch.mask[i] == 1 || batch.targets[i] == kNoTarget);
  }
  EXPECT_EQ(padding, 100);
}

// All splits together: each byte is a target once, except the first of each of the three splits.
TEST_F(TextData, AllIsEverySplit) {
  const auto data = Open(Task::kCausal);
  int64_t targets = 0;
  for (int64_t i = 0; i < data->Batches(Split::kAll, 7, 64); ++i) {
    for (const int32_t target :
         data->EvalBatch(Split::kAll, {.index = i, .batch = 7, .length = 64}).targets)
      targets += target != kNoTarget ? 1 : 0;
  }
  EXPECT_EQ(targets, 10000 - 3);
  EXPECT_EQ(data->Summary(Split::kAll).tokens, 10000);
}

TEST_F(TextData, MaskedTokensAreAskedFor) {
  const auto data = Open(Task::kMasked);
  const Batch batch = data->TrainBatch({.index = 0, .batch = 100, .length = 200});
  double asked = 0, hidden = 0, same = 0;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    if (batch.targets[i] == kNoTarget) continue;
    ++asked;
    hidden += batch.tokens[i] == 256 ? 1 : 0;
    same += batch.tokens[i] == batch.targets[i] ? 1 : 0;
  }
  // 20,000 draws; five standard errors.
  EXPECT_NEAR(asked / 20000, 0.15, 0.0127);
  EXPECT_NEAR(hidden / asked, 0.8, 0.037);
  EXPECT_NEAR(same / asked, 0.1, 0.028);
}

// 500 bytes are 13 windows: whatever the batches, the last of which is short, the same tokens are
// masked.
TEST_F(TextData, MasksDoNotDependOnTheBatch) {
  const auto data = Open(Task::kMasked);
  const auto all = [&](int64_t batch) {
    std::pair<std::vector<int32_t>, std::vector<int32_t>> read;
    for (int64_t i = 0; i < data->Batches(Split::kValid, batch, 40); ++i) {
      const Batch part = data->EvalBatch(Split::kValid, {.index = i, .batch = batch, .length = 40});
      read.first.insert(read.first.end(), part.tokens.begin(), part.tokens.end());
      read.second.insert(read.second.end(), part.targets.begin(), part.targets.end());
    }
    return read;
  };
  const auto one = all(1);
  ASSERT_EQ(one.first.size(), 13u * 40);
  for (const int64_t batch : {2, 5, 13, 20}) EXPECT_EQ(all(batch), one) << batch;
}

TEST_F(TextData, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Open(Task::kClassify), Error);
  EXPECT_THROW(OpenData(dir_ / "none", {}), Error);
  EXPECT_THROW(Open(Task::kCausal)->Length(9000), Error);  // there are 9000 bytes to learn from
  EXPECT_EQ(Open(Task::kCausal)->Length(8999), 8999);
  WriteText(dir_ / "short", "abc");
  EXPECT_THROW(OpenData(dir_ / "short", {}), Error);
  WriteText(dir_ / "empty", "");
  EXPECT_THROW(OpenData(dir_ / "empty", {}), Error);
  WriteText(dir_ / "binary", std::string("ab\0c", 4) + Digits(1000));
  EXPECT_THROW(OpenData(dir_ / "binary", {}), Error);
  EXPECT_EQ(OpenData(dir_ / "binary", {.format = {.kind = DataKind::kText}})->vocab(), 258);
  EXPECT_THROW(OpenData(path_ + "," + (dir_ / "binary"), {}), Error);  // any of several
  EXPECT_THROW(OpenData(path_, {.format = {.split_by = SplitRule::kRecords}}), Error);
  EXPECT_THROW(OpenData(path_, {.format = {.split_by = SplitRule::kBlocks}}), Error);  // too short
}

TEST(Copy, AsksForWhatStoodBefore) {
  const auto data = OpenData("task:copy,length=5,symbols=4", {});
  EXPECT_EQ(data->vocab(), 5);
  EXPECT_EQ(data->Length(0), 10);
  const Batch batch = data->TrainBatch({.index = 0, .batch = 3, .length = 10});
  for (size_t first = 0; first < 30; first += 10) {
    EXPECT_EQ(batch.tokens[first + 5], 4);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(batch.targets[first + i], kNoTarget);
      EXPECT_EQ(batch.targets[first + 5 + i], batch.tokens[first + i]);
      if (i < 4) {
        EXPECT_EQ(batch.tokens[first + 6 + i], batch.tokens[first + i]);
      }
    }
  }
  // Every symbol is as frequent as any other: 1000 draws, five standard errors.
  const Batch many = data->TrainBatch({.index = 1, .batch = 200, .length = 10});
  std::map<int32_t, double> drawn;
  for (size_t i = 0; i < many.tokens.size(); ++i) drawn[many.tokens[i]] += i % 10 < 5 ? 1e-3 : 0;
  for (int32_t symbol = 0; symbol < 4; ++symbol) EXPECT_NEAR(drawn[symbol], 0.25, 0.069);
}

TEST(Recall, AsksForTheValueOfEveryKey) {
  EXPECT_EQ(OpenData("task:recall,pairs=6,distance=20", {})->Length(0), 2 * 6 + 20 + 6);
  const auto data = OpenData("task:recall,pairs=6,distance=20,questions=15", {});
  const int64_t length = data->Length(0);
  ASSERT_EQ(length, 2 * 6 + 20 + 15);
  const Batch batch = data->EvalBatch(Split::kValid, {.index = 1, .batch = 5, .length = length});
  for (int64_t sequence = 0; sequence < 5; ++sequence) {
    const auto first = static_cast<size_t>(sequence * length);
    // Each round of questions has an order of its own.
    const auto questions = std::span(batch.tokens).subspan(first + 32, 15);
    EXPECT_FALSE(std::ranges::equal(questions.first(6), questions.subspan(6, 6)));
    std::map<int32_t, int32_t> values;
    for (size_t pair = 0; pair < 6; ++pair)
      values[batch.tokens[first + 2 * pair]] = batch.tokens[first + 2 * pair + 1];
    EXPECT_EQ(values.size(), 6u) << "keys are different";
    std::map<int32_t, int> asked;
    for (size_t i = first; i < first + static_cast<size_t>(length); ++i) {
      if (batch.targets[i] == kNoTarget) continue;
      EXPECT_GE(i - first, 32u);
      EXPECT_EQ(values.at(batch.tokens[i]), batch.targets[i]);
      ++asked[batch.tokens[i]];
    }
    ASSERT_EQ(asked.size(), 6u);
    for (const auto& [key, times] : asked) EXPECT_TRUE(times == 2 || times == 3) << key;
  }
}

// Training sequences have all distances at one length; evaluation has the requested distance.
TEST(Recall, MixesDistancesInTrainingOnly) {
  const auto data = OpenData("task:recall,pairs=4,distance=100,mixed=1", {});
  ASSERT_EQ(data->Length(0), 112);
  const auto starts = [&](const Batch& batch) {
    std::vector<int64_t> found;
    for (int64_t sequence = 0; sequence < batch.batch; ++sequence) {
      int64_t asked = 0;
      for (int64_t i = 0; i < 112; ++i) {
        if (batch.targets[static_cast<size_t>(sequence * 112 + i)] == kNoTarget) continue;
        if (asked++ == 0) found.push_back(i);
      }
      EXPECT_EQ(asked, 4);
    }
    return found;
  };
  const auto training = starts(data->TrainBatch({.index = 0, .batch = 200, .length = 112}));
  const auto short_ones =
      std::count_if(training.begin(), training.end(), [](int64_t start) { return start < 8 + 10; });
  EXPECT_NEAR(static_cast<double>(short_ones) / 200, std::log(11.0) / std::log(101.0), 0.18);
  EXPECT_EQ(*std::min_element(training.begin(), training.end()), 8);
  for (const int64_t start :
       starts(data->EvalBatch(Split::kValid, {.index = 0, .batch = 50, .length = 112})))
    EXPECT_EQ(start, 108);
}

// Training has 8, 16, 32 or all 40 pairs, followed by noise; evaluation has all.
TEST(Recall, MixesNumbersOfPairsInTrainingOnly) {
  const auto data = OpenData("task:recall,pairs=40,distance=3,questions=50,mixed_pairs=1", {});
  constexpr int64_t kLength = 80 + 3 + 50;
  ASSERT_EQ(data->Length(0), kLength);
  const auto numbers = [&](const Batch& batch) {
    std::map<size_t, int> found;
    for (int64_t sequence = 0; sequence < batch.batch; ++sequence) {
      const auto first = static_cast<size_t>(sequence * kLength);
      std::map<int32_t, int32_t> values;
      for (size_t i = first; batch.tokens[i] < 40 && i < first + 80; i += 2)
        values[batch.tokens[i]] = batch.tokens[i + 1];
      std::map<int32_t, int> asked;
      for (size_t i = first; i < first + kLength; ++i) {
        const bool question = i >= first + 83;
        EXPECT_EQ(batch.targets[i] != kNoTarget, question);
        if (!question) continue;
        EXPECT_EQ(values.at(batch.tokens[i]), batch.targets[i]);
        ++asked[batch.tokens[i]];
      }
      EXPECT_EQ(asked.size(), values.size());
      ++found[values.size()];
    }
    return found;
  };
  const auto training = numbers(data->TrainBatch({.index = 0, .batch = 400, .length = kLength}));
  ASSERT_EQ(training.size(), 4u);
  for (const size_t pairs : {8, 16, 32, 40}) EXPECT_NEAR(training.at(pairs), 100, 45) << pairs;
  const auto valid =
      numbers(data->EvalBatch(Split::kValid, {.index = 0, .batch = 20, .length = kLength}));
  EXPECT_EQ(valid, (std::map<size_t, int>{{40, 20}}));
}

// Computes results in another way: by a stack machine over the tokens.
int32_t Calculate(const std::vector<int32_t>& tokens) {
  std::vector<std::vector<int32_t>> open(1);
  std::vector<int32_t> operations;
  for (const int32_t token : tokens) {
    if (token < 10) {
      open.back().push_back(token);
    } else if (token < 14) {
      operations.push_back(token);
      open.emplace_back();
    } else {
      std::vector<int32_t> values = open.back();
      open.pop_back();
      std::sort(values.begin(), values.end());
      int32_t sum = 0;
      for (const int32_t value : values) sum += value;
      const int32_t results[] = {values.front(), values.back(), values[(values.size() - 1) / 2],
                                 sum % 10};
      open.back().push_back(results[operations.back() - 10]);
      operations.pop_back();
    }
  }
  return open[0][0];
}

TEST(Listops, LabelsAreTheResults) {
  const auto data = OpenData("task:listops,length=60,depth=5", {.task = Task::kClassify});
  EXPECT_EQ(data->classes(), 10);
  const Batch batch = data->TrainBatch({.index = 0, .batch = 200, .length = 60});
  size_t longest = 0;
  std::map<int32_t, int> labels;
  for (size_t sequence = 0; sequence < 200; ++sequence) {
    std::vector<int32_t> tokens;
    for (size_t i = sequence * 60; i < (sequence + 1) * 60 && batch.mask[i] == 1; ++i)
      tokens.push_back(batch.tokens[i]);
    EXPECT_EQ(Calculate(tokens), batch.targets[sequence]);
    longest = std::max(longest, tokens.size());
    ++labels[batch.targets[sequence]];
  }
  EXPECT_GT(longest, 40u);
  EXPECT_GT(labels.size(), 8u);
}

TEST(Generated, SplitsAndSeedsDiffer) {
  const auto data = OpenData("task:copy", {.seed = 1}), other = OpenData("task:copy", {.seed = 2});
  const BatchRequest request{.index = 0, .batch = 2, .length = 64};
  const auto tokens = data->TrainBatch(request).tokens;
  EXPECT_NE(tokens, data->EvalBatch(Split::kValid, request).tokens);
  EXPECT_NE(tokens, data->EvalBatch(Split::kTest, request).tokens);
  EXPECT_NE(tokens, other->TrainBatch(request).tokens);
}

void ExpectRefused(const std::string& source, const std::string& says, Task task = Task::kCausal) {
  try {
    OpenData(source, {.task = task});
    FAIL() << source;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

TEST(Generated, RefusesWhatCannotBe) {
  ExpectRefused("task:cop", "did you mean 'copy'");
  ExpectRefused("task:", "unknown task");
  ExpectRefused("task:copy,lenght=3", "did you mean 'length'");
  ExpectRefused("task:copy,length=0", "expected a whole number");
  ExpectRefused("task:copy,length=3x", "expected a whole number");
  ExpectRefused("task:copy,length", "expected a whole number");
  ExpectRefused("task:copy,", "unknown key");
  ExpectRefused("task:copy,length=3,length=4", "'length' twice");
  ExpectRefused("task:recall,pairs=9,symbols=8", "one per pair");
  ExpectRefused("task:copy", "expected causal", Task::kMasked);
  ExpectRefused("task:listops", "expected classify");
  EXPECT_THROW(OpenData("task:copy", {})->Length(63), Error);
}

}  // namespace
}  // namespace favor
