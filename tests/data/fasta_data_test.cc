// FASTA files through OpenData: layouts, masks, and rounds of training.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "tests/data/fasta_fixture.h"
#include "tests/gzip.h"

namespace favor {
namespace {

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
  const auto data = Open(text, {.task = Task::kMasked, .format = kAllToTrain});
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
  const auto data = Open(">a\nAC\n>b\nD\n>c\nEFA\n",
                         {.format = {.layout = Layout::kJoin, .valid = 0, .test = 0}});
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
      Open(">a\nACDEF\n>b\nAC\n", {.format = {.layout = Layout::kCrop, .valid = 0, .test = 0}});
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
           {.format = {
                .layout = Layout::kCrop, .split_by = SplitRule::kPlace, .valid = 0.4, .test = 0}});
  for (int64_t i = 0; i < 3000; ++i) {
    for (const Row& row : Rows(only->TrainBatch({.index = i, .batch = 1, .length = 4})))
      ++seen[row];
  }
  // A piece of four targets has three places in "<begin> A C D E F <end>", each for a third of the
  // sequences (the others are records that fit): five standard errors.
  int pieces = 0;
  for (const Row& row : {Row{{kBegin, 0, 1, 2}, {0, 1, 2, 3}}, Row{{0, 1, 2, 3}, {1, 2, 3, 4}},
                         Row{{1, 2, 3, 4}, {2, 3, 4, kEnd}}})
    pieces += seen[row];
  ASSERT_GT(pieces, 500);
  for (const Row& row : {Row{{kBegin, 0, 1, 2}, {0, 1, 2, 3}}, Row{{0, 1, 2, 3}, {1, 2, 3, 4}},
                         Row{{1, 2, 3, 4}, {2, 3, 4, kEnd}}})
    EXPECT_NEAR(seen[row], pieces / 3.0, 5 * std::sqrt(pieces * 2.0 / 9));
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
  const auto data = Open(
      text,
      {.task = Task::kMasked, .format = {.split_by = SplitRule::kPlace, .valid = 0.05, .test = 0}});
  std::array<double, 20> replaced{};
  double all = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const Batch batch = data->TrainBatch({.index = i, .batch = 40, .length = 210});
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      if (batch.targets[at] == kNoTarget || batch.tokens[at] == kHidden ||
          batch.tokens[at] == batch.targets[at])
        continue;
      // A token that replaces itself cannot be told from one that was kept.
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

// Several files and a folder are read like one file; a name may occur in several files.
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
  const DataOptions dna{.format = {.alphabet = Alphabet::kDna, .valid = 0, .test = 0}};
  const auto plain = Open(text, dna);
  EXPECT_EQ(plain->vocab(), 19);
  EXPECT_EQ(plain->Unit(), "base");
  EXPECT_EQ(Sequences(*plain, Split::kTrain), (std::vector<std::string>{"ACGT"}))
      << "the last letter is a target alone";
  WriteText(dir_ / "x.FNA.gz", Gzip(text));
  const auto zipped = OpenData(dir_ / "x.FNA.gz", dna);
  EXPECT_EQ(zipped->Fingerprint(), plain->Fingerprint());
  WriteText(dir_ / "X.FNA.GZ", Gzip(text));
  EXPECT_EQ(OpenData(dir_ / "X.FNA.GZ", dna)->Fingerprint(), plain->Fingerprint());
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

// Every record comes once per round, whatever the size of a batch; each round has another order.
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

}  // namespace
}  // namespace favor
