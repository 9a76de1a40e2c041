// FASTA files behind OpenData: splits, layouts, and rounds of training.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
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

  // The sequences of a split, as letters.
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

using Row = std::pair<Tokens, Tokens>;  // tokens and targets of a sequence

std::multiset<Row> Rows(const Batch& batch) {
  std::multiset<Row> rows;
  const auto length = static_cast<std::ptrdiff_t>(batch.length);
  for (std::ptrdiff_t at = 0; at < std::ssize(batch.tokens); at += length) {
    rows.insert({Tokens(batch.tokens.begin() + at, batch.tokens.begin() + at + length),
                 Tokens(batch.targets.begin() + at, batch.targets.begin() + at + length)});
  }
  return rows;
}

// A = 0, C = 1, D = 2, E = 3, F = 4.
TEST_F(FastaData, ClipsRecordsAtTheLength) {
  const auto data = Open(">a\nAC\n>b\nACDE\n>c\nACDEF\n>d\nACD\n", {.format = kAllToTrain});
  EXPECT_EQ(data->vocab(), 29);
  EXPECT_EQ(data->Unit(), "residue");
  const Batch batch = data->EvalBatch(Split::kTrain, {.index = 0, .batch = 9, .length = 4});
  ASSERT_EQ(batch.batch, 4);
  EXPECT_EQ(Rows(batch), (std::multiset<Row>{{{kBegin, 0, 1, kPadding}, {0, 1, kEnd, kNoTarget}},
                                             {{kBegin, 0, 1, 2}, {0, 1, 2, 3}},
                                             {{kBegin, 0, 1, 2}, {0, 1, 2, 3}},
                                             {{kBegin, 0, 1, 2}, {0, 1, 2, kEnd}}}));
  EXPECT_TRUE(batch.mask.empty());
  // "F" of record c is beyond: one of 14.
  EXPECT_DOUBLE_EQ(data->Summary(Split::kTrain).ShareBeyond(4), 1.0 / 14);
  EXPECT_DOUBLE_EQ(data->Summary(Split::kTrain).ShareBeyond(2), 6.0 / 14);
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
  std::multiset<size_t> lengths, expected;
  for (size_t row = 0; row < 100; ++row) {
    const auto begin = batch.mask.begin() + static_cast<std::ptrdiff_t>(row * 80);
    const auto letters = static_cast<size_t>(std::count(begin, begin + 80, 1.0f));
    lengths.insert(letters);
    expected.insert(std::min<size_t>(row + 1, 80));
    for (size_t i = 0; i < 80; ++i) {
      const size_t at = row * 80 + i;
      const bool letter = i < letters;
      EXPECT_EQ(batch.mask[at], letter ? 1 : 0);
      EXPECT_EQ(batch.tokens[at] == kPadding, !letter);
      if (!letter) {
        EXPECT_EQ(batch.targets[at], kNoTarget);
      } else {
        EXPECT_TRUE(batch.tokens[at] == kHidden || batch.tokens[at] < 25);
      }
    }
  }
  EXPECT_EQ(lengths, expected);
}

TEST_F(FastaData, JoinsRecordsWithAnEndBetween) {
  const auto data =
      Open(">a\nAC\n>b\nD\n>c\nEFA\n", {.format = {.layout = "join", .valid = 0, .test = 0}});
  const Batch batch = data->EvalBatch(Split::kTrain, {.index = 0, .batch = 1, .length = 8});
  ASSERT_EQ(batch.batch, 1);
  EXPECT_EQ(batch.tokens, (Tokens{0, 1, kEnd, 2, kEnd, 3, 4, 0}));
  EXPECT_EQ(batch.targets, (Tokens{1, kEnd, 2, kEnd, 3, 4, 0, kEnd}));
  EXPECT_EQ(data->Batches(Split::kTrain, 1, 9), 1);  // shorter, and padded
  EXPECT_EQ(data->Summary(Split::kTrain).tokens, 6);
}

// Pieces of records: training begins anywhere, evaluation reads all pieces.
TEST_F(FastaData, CropsRecordsAtRandomPlaces) {
  const auto data =
      Open(">a\nACDEF\n>b\nAC\n", {.format = {.layout = "crop", .valid = 0, .test = 0}});
  ASSERT_EQ(data->Batches(Split::kTrain, 9, 2), 1);
  EXPECT_EQ(Rows(data->EvalBatch(Split::kTrain, {.index = 0, .batch = 9, .length = 2})),
            (std::multiset<Row>{{{kBegin, 0}, {0, 1}},
                                {{1, 2}, {2, 3}},
                                {{3, 4}, {4, kEnd}},
                                {{kBegin, 0}, {0, 1}},
                                {{1, kPadding}, {kEnd, kNoTarget}}}));
  std::map<Row, int> seen;
  const auto only =
      Open(">a\nACDEF\n>v\nMMMM\n>w\nWW\n>x\nKKK\n>y\nLL\n",
           {.format = {.layout = "crop", .split_by = "place", .valid = 0.4, .test = 0}});
  for (int64_t i = 0; i < 3000; ++i) {
    for (const Row& row : Rows(only->TrainBatch({.index = i, .batch = 1, .length = 4})))
      ++seen[row];
  }
  // Three places of "<begin> A C D E F <end>" for a piece of four targets, of a third of the
  // sequences each (the others are records that fit): five standard errors.
  int pieces = 0;
  for (const Row& row : {Row{{kBegin, 0, 1, 2}, {0, 1, 2, 3}}, Row{{0, 1, 2, 3}, {1, 2, 3, 4}},
                         Row{{1, 2, 3, 4}, {2, 3, 4, kEnd}}})
    pieces += seen[row];
  ASSERT_GT(pieces, 500);
  for (const Row& row : {Row{{kBegin, 0, 1, 2}, {0, 1, 2, 3}}, Row{{0, 1, 2, 3}, {1, 2, 3, 4}},
                         Row{{1, 2, 3, 4}, {2, 3, 4, kEnd}}})
    EXPECT_NEAR(seen[row], pieces / 3.0, 5 * std::sqrt(pieces * 2.0 / 9));
}

// A genome of one record, and five: divided by place.
TEST_F(FastaData, FewLongRecordsAreDividedByPlace) {
  constexpr std::string_view kBases = "ACGT";
  const auto genome = [&](uint64_t number, size_t length) {
    std::string letters;
    for (size_t i = 0; i < length; ++i)
      letters += kBases[RandomStream(number, "genome").Bits(i) % 4];
    return letters;
  };
  const std::string one = genome(1, 20000);
  for (const char* layout : {"join", "clip", "crop"}) {
    const auto data = Open(">g\n" + one + "\n", {.format = {.alphabet = "dna", .layout = layout}});
    EXPECT_EQ(data->SplitBy(), "place");
    EXPECT_EQ(data->Length(512), 512);
    // One end token more in a stream.
    EXPECT_EQ(data->Summary(Split::kTrain).tokens, std::string(layout) == "join" ? 18001 : 18000);
    EXPECT_EQ(data->Summary(Split::kAll).tokens, 20000);
  }
  const auto data = Open(">g\n" + one + "\n", {.format = {.alphabet = "dna", .layout = "join"}});
  // Training reads the beginning alone, up to its last token: 18001 of 20001, in windows of 17991.
  std::set<size_t> ends;
  for (int64_t i = 0; i < 100; ++i) {
    const Batch batch = data->TrainBatch({.index = i, .batch = 1, .length = 17990});
    std::string seen = data->vocabulary()->Decode(batch.tokens);
    seen += data->vocabulary()->Decode(std::span(batch.targets).last(1));
    const size_t at = one.find(seen);
    ASSERT_NE(at, std::string::npos);
    ends.insert(at + seen.size());
  }
  EXPECT_EQ(ends.size(), 11u);  // all places
  EXPECT_EQ(*ends.begin(), 17991u);
  EXPECT_EQ(*ends.rbegin(), 18001u);
  std::string five;
  for (uint64_t i = 0; i < 5; ++i)
    five += ">g" + std::to_string(i) + "\n" + genome(i, 10000 + i) + "\n";
  EXPECT_EQ(Open(five, {.format = {.alphabet = "dna", .layout = "join"}})->Length(512), 512);
  // Many short records are divided as before, few of them too.
  EXPECT_EQ(Open(">a\nACD\n>b\nEFG\n", {.format = kAllToTrain})->SplitBy(), "records");
  ExpectRefused(">a\n" + genome(1, 200) + "\n", "expected alphabet dna");
}

// Blocks of 8192: one in twenty is held out, to validate and to test in turn, and no window of
// training reaches into one.
TEST_F(FastaData, BlocksAreHeldOutEverywhere) {
  constexpr std::string_view kBases = "ACGT";
  std::string letters(40 * 8192 - 1, 'A');  // and the end token
  for (size_t i = 0; i < letters.size(); ++i)
    letters[i] = kBases[RandomStream(3, "blocks").Bits(i) % 4];
  const DataOptions options{.format = {.alphabet = "dna", .layout = "join", .split_by = "blocks"}};
  const auto data = Open(">g\n" + letters + "\n", options);
  EXPECT_EQ(data->SplitBy(), "blocks");
  EXPECT_EQ(data->Summary(Split::kValid).tokens, 8192);
  EXPECT_EQ(data->Summary(Split::kTest).tokens, 8192);
  EXPECT_EQ(data->Summary(Split::kTrain).tokens, 38 * 8192 - 1);
  // Where the blocks are, from the data alone.
  std::vector<bool> held(letters.size());
  for (const Split split : {Split::kValid, Split::kTest}) {
    const Batch batch = data->EvalBatch(split, {.index = 0, .batch = 1, .length = 8191});
    ASSERT_EQ(data->Batches(split, 1, 8191), 1);
    const std::string block = data->vocabulary()->Decode(batch.tokens);
    const size_t at = letters.find(block);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(at % 8192, 0u);
    EXPECT_EQ(at / 8192 / 20, split == Split::kValid ? 0u : 1u);
    std::fill_n(held.begin() + static_cast<std::ptrdiff_t>(at), 8192, true);
  }
  for (int64_t i = 0; i < 200; ++i) {
    const Batch batch = data->TrainBatch({.index = i, .batch = 8, .length = 2000});
    for (size_t row = 0; row < 8; ++row) {
      std::string seen =
          data->vocabulary()->Decode(std::span(batch.tokens).subspan(row * 2000, 2000));
      seen += data->vocabulary()->Decode(std::span(batch.targets).subspan(row * 2000 + 1999, 1));
      const size_t at = letters.find(seen);
      ASSERT_NE(at, std::string::npos) << "a window across a cut";
      EXPECT_FALSE(held[at] || held[at + seen.size() - 1]);
    }
  }
  EXPECT_THROW(Open(">g\n" + letters.substr(1) + "\n", options), Error);
  DataOptions clipped = options;
  clipped.format.layout = "clip";
  EXPECT_THROW(Open(">g\n" + letters + "\n", clipped), Error);
}

// Tokens that replace masked ones are as frequent as in training: χ² over 20 letters of very
// different frequencies, 19 degrees of freedom (99.99 %: 54).
TEST_F(FastaData, ReplacementsAreAsFrequentAsInTraining) {
  constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWY";
  std::string text;
  std::array<double, 20> share{};
  for (int record = 0; record < 40; ++record) {
    text += ">r" + std::to_string(record) + "\n";
    for (size_t letter = 0; letter < 20; ++letter) {
      text += std::string(letter + 1, kLetters[letter]);
      share[letter] = static_cast<double>(letter + 1) / 210;
    }
    text += "\n";
  }
  const auto data =
      Open(text, {.task = "masked", .format = {.split_by = "place", .valid = 0.05, .test = 0}});
  std::array<double, 20> replaced{};
  double all = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const Batch batch = data->TrainBatch({.index = i, .batch = 40, .length = 210});
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      if (batch.targets[at] == kNoTarget || batch.tokens[at] == kHidden ||
          batch.tokens[at] == batch.targets[at])
        continue;
      // A token cannot be told from one that was kept where it replaces itself.
      const double other = 1 - share[static_cast<size_t>(batch.tokens[at])];
      replaced[static_cast<size_t>(batch.tokens[at])] += 1 / other;
      all += 1 / other;
    }
  }
  ASSERT_GT(all, 30000);
  double chi = 0;
  for (size_t letter = 0; letter < 20; ++letter)
    chi += std::pow(replaced[letter] - all * share[letter], 2) / (all * share[letter]);
  EXPECT_LT(chi, 54 * 1.2);  // counts are weighted by at most 1 / (1 − 20/210)
}

// Several files and a folder are read like one; names may stand in both.
TEST_F(FastaData, SeveralFilesAreOne) {
  const std::string a = ">x\n" + RandomSequence(1, 30) + "\n",
                    b = ">x\n" + RandomSequence(2, 30) + "\n";
  std::filesystem::create_directory(dir_ / "folder");
  WriteText(dir_ / "folder/a.fa", a);
  WriteText(dir_ / "folder/b.fa", b);
  const auto folder = OpenData(dir_ / "folder", {});
  const auto list = OpenData(dir_ / "folder/a.fa," + (dir_ / "folder/b.fa"), {});
  EXPECT_EQ(folder->Summary(Split::kAll).records, 2);
  EXPECT_EQ(folder->Fingerprint(), list->Fingerprint());
  WriteText(dir_ / "one.fa", a + ">y\n" + RandomSequence(2, 30) + "\n");
  EXPECT_EQ(OpenData(dir_ / "one.fa", {})->Content(), folder->Content());
  EXPECT_THROW(OpenData(dir_ / "folder/a.fa,none.fa", {}), Error);
  EXPECT_THROW(OpenData(dir_ / "reads.fastq", {}), Error);
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
  std::multiset<Tokens> targets;
  for (const Row& row : Rows(batch)) targets.insert(row.second);
  EXPECT_EQ(targets.count({0, 1, 2, 3, 4}), 2u);

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
