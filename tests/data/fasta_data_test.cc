// FASTA files behind OpenData: splits, layouts, and rounds of training.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/permutation.h"
#include "favor/data.h"
#include "favor/error.h"
#include "tests/gzip.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

using Tokens = std::vector<int32_t>;

std::string RandomSequence(uint64_t number, size_t length) {
  constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWY";
  const RandomStream random = RandomStream(1, "sequences").Child(number);
  std::string letters;
  for (size_t i = 0; i < length; ++i) letters += kLetters[random.Bits(i) % 20];
  return letters;
}

class FastaData : public testing::Test {
 protected:
  std::unique_ptr<Dataset> Open(const std::string& text, const DataOptions& options = {}) {
    WriteText(path_, text);
    return OpenData(path_, options);
  }

  void ExpectRefused(const std::string& text, const std::string& says,
                     const DataOptions& options = {}) {
    try {
      Open(text, options);
      ADD_FAILURE() << "accepted, expected: " << says;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(says), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }

  // The sequences of a split, as letters, in the order of the file.
  static std::vector<std::string> Sequences(const Dataset& data, Split split) {
    std::vector<std::string> all;
    const int64_t length = std::max<int64_t>(1, data.Summary(split).Longest());
    for (int64_t i = 0; i < data.Batches(split, 1, length); ++i) {
      const Batch batch = data.EvalBatch(split, {.index = i, .batch = 1, .length = length});
      all.push_back(data.vocabulary()->Decode(batch.tokens));
    }
    return all;
  }

  TempDir dir_;
  std::string path_ = dir_ / "x.fasta";
};

constexpr int32_t kBegin = 25, kEnd = 26, kHidden = 27, kPadding = 28;
const DataFormat kAllToTrain{.valid = 0, .test = 0};

// A = 0, C = 1, D = 2, E = 3, F = 4.
TEST_F(FastaData, ClipsRecordsAtTheLength) {
  const auto data = Open(">a\nAC\n>b\nACDE\n>c\nACDEF\n>d\nACD\n", {.format = kAllToTrain});
  EXPECT_EQ(data->vocab(), 29);
  EXPECT_EQ(data->Unit(), "residue");
  const Batch batch = data->EvalBatch(Split::kTrain, {.index = 0, .batch = 9, .length = 4});
  ASSERT_EQ(batch.batch, 4);
  EXPECT_EQ(batch.tokens, (Tokens{kBegin, 0, 1, kPadding,  //
                                  kBegin, 0, 1, 2,         //
                                  kBegin, 0, 1, 2,         //
                                  kBegin, 0, 1, 2}));
  EXPECT_EQ(batch.targets, (Tokens{0, 1, kEnd, kNoTarget,  //
                                   0, 1, 2, 3,             //
                                   0, 1, 2, 3,             //
                                   0, 1, 2, kEnd}));
  EXPECT_TRUE(batch.mask.empty());
  const SplitSummary summary = data->Summary(Split::kTrain);
  EXPECT_EQ(summary.records, 4);
  EXPECT_EQ(summary.tokens, 14);
  EXPECT_EQ(summary.MedianLength(), 3.5);
}

TEST_F(FastaData, MasksLettersAlone) {
  std::string text;
  for (uint64_t i = 0; i < 100; ++i)
    text += ">r" + std::to_string(i) + "\n" + RandomSequence(i, 1 + i) + "\n";
  const auto data = Open(text, {.task = "masked", .format = kAllToTrain});
  const Batch batch = data->EvalBatch(Split::kTrain, {.index = 0, .batch = 100, .length = 80});
  for (size_t row = 0; row < 100; ++row) {
    for (size_t i = 0; i < 80; ++i) {
      const size_t at = row * 80 + i;
      const bool letter = i < row + 1;
      EXPECT_EQ(batch.mask[at], letter ? 1 : 0);
      EXPECT_EQ(batch.tokens[at] == kPadding, !letter);
      if (!letter) {
        EXPECT_EQ(batch.targets[at], kNoTarget);
      } else {
        EXPECT_TRUE(batch.tokens[at] == kHidden || batch.tokens[at] < 25);
      }
    }
  }
}

TEST_F(FastaData, JoinsRecordsWithAnEndBetween) {
  const auto data =
      Open(">a\nAC\n>b\nD\n>c\nEFA\n", {.format = {.layout = "join", .valid = 0, .test = 0}});
  const Batch batch = data->EvalBatch(Split::kTrain, {.index = 0, .batch = 1, .length = 8});
  ASSERT_EQ(batch.batch, 1);
  EXPECT_EQ(batch.tokens, (Tokens{0, 1, kEnd, 2, kEnd, 3, 4, 0}));
  EXPECT_EQ(batch.targets, (Tokens{1, kEnd, 2, kEnd, 3, 4, 0, kEnd}));
  EXPECT_EQ(data->Batches(Split::kTrain, 1, 9), 0);
  EXPECT_EQ(data->Summary(Split::kTrain).tokens, 6);
}

TEST_F(FastaData, ReadsDnaAndGzip) {
  const std::string text = ">a\nACGTN\n";
  const DataOptions dna{.format = {.alphabet = "dna", .valid = 0, .test = 0}};
  const auto plain = Open(text, dna);
  EXPECT_EQ(plain->vocab(), 19);
  EXPECT_EQ(plain->Unit(), "base");
  EXPECT_EQ(Sequences(*plain, Split::kTrain), (std::vector<std::string>{"ACGT"}))
      << "the last letter is a target alone";
  WriteText(dir_ / "x.FNA.gz", Gzip(text));
  const auto zipped = OpenData(dir_ / "x.FNA.gz", dna);
  EXPECT_EQ(zipped->Fingerprint(), plain->Fingerprint());
}

// 5000 different sequences, of which 500 stand there under a second name.
TEST_F(FastaData, SplitsGoByWhatRecordsHold) {
  std::string text;
  for (uint64_t i = 0; i < 5000; ++i)
    text += ">r" + std::to_string(i) + "\n" + RandomSequence(i, 20) + "\n";
  for (uint64_t i = 0; i < 500; ++i)
    text += ">twin" + std::to_string(i) + "\n" + RandomSequence(i, 20) + "\n";
  const auto data = Open(text, {.format = {.valid = 0.1, .test = 0.2}});
  std::map<std::string, std::set<Split>> where;
  std::map<Split, double> records;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    for (const std::string& sequence : Sequences(*data, split)) {
      where[sequence].insert(split);
      ++records[split];
    }
  }
  EXPECT_EQ(records[Split::kTrain] + records[Split::kValid] + records[Split::kTest], 5500);
  EXPECT_EQ(where.size(), 5000u);
  for (const auto& [sequence, splits] : where) EXPECT_EQ(splits.size(), 1u) << sequence;
  std::map<Split, double> different;
  for (const auto& [sequence, splits] : where) ++different[*splits.begin()];
  // Four standard errors of 5000 draws: fails by chance once in 16,000.
  EXPECT_NEAR(different[Split::kValid] / 5000, 0.1, 4 * 0.00424);
  EXPECT_NEAR(different[Split::kTest] / 5000, 0.2, 4 * 0.00566);
  EXPECT_EQ(data->Summary(Split::kHeldOut).records, 0);
}

// A record's split does not depend on its neighbours.
TEST_F(FastaData, MoreRecordsMoveNone) {
  const DataOptions options{.format = {.valid = 0.3, .test = 0.3}};
  std::string text;
  for (uint64_t i = 0; i < 50; ++i)
    text += ">r" + std::to_string(i) + "\n" + RandomSequence(i, 10) + "\n";
  const auto before = Sequences(*Open(text, options), Split::kValid);
  const auto after = Sequences(*Open(">new\nMMMMMMMMMM\n" + text, options), Split::kValid);
  const std::set<std::string> all(after.begin(), after.end());
  for (const std::string& sequence : before) EXPECT_TRUE(all.contains(sequence));
}

TEST_F(FastaData, AListHoldsOut) {
  const std::string text =
      ">a family 1\nACDEF\n>b\nMKV\n>c\nWWW\n>d the same as a\nacd\nef\n>e\nACD\n";
  WriteText(dir_ / "list", ">a\r\n\nc\n");
  DataFormat format = kAllToTrain;
  format.held_out = dir_ / "list";
  const auto data = Open(text, {.format = format});
  EXPECT_EQ(data->Summary(Split::kHeldOut).records, 3);  // a, c, and d as a twin of a
  EXPECT_EQ(data->Summary(Split::kTrain).records, 2);
  const Batch batch = data->EvalBatch(Split::kHeldOut, {.index = 0, .batch = 9, .length = 5});
  EXPECT_EQ(Tokens(batch.targets.begin(), batch.targets.begin() + 5), (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(Tokens(batch.targets.begin() + 10, batch.targets.end()), (Tokens{0, 1, 2, 3, 4}));

  WriteText(dir_ / "list", "a\nfamily\nz\n");
  ExpectRefused(text, "list: names 'family', which is no record of '", {.format = format});
  ExpectRefused(text, "(2 of 3 names are not there)", {.format = format});
  WriteText(dir_ / "list", "\n\n");
  ExpectRefused(text, "list: holds no names of records", {.format = format});
  format.held_out = dir_ / "none";
  ExpectRefused(text, "none: cannot be read", {.format = format});
}

TEST_F(FastaData, RefusesWhatIsNoData) {
  ExpectRefused("", "x.fasta: holds no records");
  ExpectRefused("\n\n", "x.fasta: holds no records");
  ExpectRefused(
      "\x7f"
      "ELF",
      "x.fasta: line 1, column 1: given '\\x7f'");
  ExpectRefused(">a\nMK\n>b\nMK\n>a b\nVV\n",
                "x.fasta: two records have the name 'a': line 1 and line 5");
  ExpectRefused(">a\nMK1\n", "x.fasta: record 'a', line 2, column 3: given '1'");
  ExpectRefused(Gzip(">a\nMK\n").substr(0, 20), "x.fasta: damaged gzip data: cut off");
  ExpectRefused(">a\nMK\n", "tokenizer: given for '", {.format = {.tokenizer = "words.model"}});
  EXPECT_THROW(OpenData(dir_ / "none.fasta", {}), Error);
  EXPECT_THROW(Open(">a\nMK\n", {.format = kAllToTrain})->Length(8), Error)
      << "nothing to validate with";
}

// Every record once a round, whatever the size of a batch; the order is another one each time.
TEST_F(FastaData, RoundsOfTrainingSeeEveryRecordOnce) {
  std::string text;
  for (uint64_t i = 0; i < 60; ++i)
    text += ">r" + std::to_string(i) + "\n" + RandomSequence(i, 12) + "\n";
  const auto data = Open(text, {.seed = 5, .format = {.valid = 0.2, .test = 0}});
  const int64_t records = data->Summary(Split::kTrain).records;
  ASSERT_GT(records, 30);
  const auto draw = [&](const Dataset& from, int64_t batch, int64_t count) {
    std::vector<std::string> seen;
    for (int64_t i = 0; static_cast<int64_t>(seen.size()) < count; ++i) {
      const Batch rows = from.TrainBatch({.index = i, .batch = batch, .length = 12});
      for (int64_t row = 0; row < batch; ++row) {
        seen.push_back(from.vocabulary()->Decode(
            std::span(rows.targets).subspan(static_cast<size_t>(row * 12), 12)));
      }
    }
    seen.resize(static_cast<size_t>(count));
    return seen;
  };
  const auto seen = draw(*data, 7, 3 * records);
  EXPECT_EQ(seen, draw(*data, 1, 3 * records));
  std::set<std::vector<std::string>> orders;
  for (int64_t round = 0; round < 3; ++round) {
    const auto from = seen.begin() + round * records;
    const std::set<std::string> different(from, from + records);
    EXPECT_EQ(static_cast<int64_t>(different.size()), records) << "round " << round;
    orders.insert(std::vector<std::string>(from, from + records));
  }
  EXPECT_EQ(orders.size(), 3u);
  const auto other = Open(text, {.seed = 6, .format = {.valid = 0.2, .test = 0}});
  EXPECT_NE(draw(*other, 7, records), draw(*data, 7, records));
}

TEST(Permutation, IsABijection) {
  for (int64_t count = 1; count <= 300; ++count) {
    const data::Permutation order(RandomStream(static_cast<uint64_t>(count), "order"), count);
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) seen.push_back(order.At(i));
    EXPECT_TRUE(count < 20 || !std::is_sorted(seen.begin(), seen.end())) << count;
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> expected(static_cast<size_t>(count));
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(seen, expected);
  }
}

// Where 0 goes in 10,000 orders of 10: every place as often, by χ² with 9 degrees of freedom
// (99.99 %: 33.7).
TEST(Permutation, HasNoFavouritePlace) {
  std::vector<double> counts(10);
  for (uint64_t i = 0; i < 10000; ++i) {
    const data::Permutation order(RandomStream(1, "order").Child(i), 10);
    ++counts[static_cast<size_t>(order.At(0))];
  }
  double chi = 0;
  for (const double count : counts) chi += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi, 33.7);
}

}  // namespace
}  // namespace favor
