// How FASTA files are divided: by what records hold, by place, by blocks, by a list of names.
#include <algorithm>
#include <map>
#include <set>

#include "tests/data/fasta_fixture.h"

namespace favor {
namespace {

class Divisions : public FastaData {};

// A genome of one record, and five: divided by place.
TEST_F(Divisions, FewLongRecordsAreDividedByPlace) {
  constexpr std::string_view kBases = "ACGT";
  const auto genome = [&](uint64_t number, size_t length) {
    std::string letters;
    for (size_t i = 0; i < length; ++i)
      letters += kBases[RandomStream(number, "genome").Bits(i) % 4];
    return letters;
  };
  const std::string one = genome(1, 20000);
  for (const Layout layout : {Layout::kJoin, Layout::kClip, Layout::kCrop}) {
    const auto data =
        Open(">g\n" + one + "\n", {.format = {.alphabet = Alphabet::kDna, .layout = layout}});
    EXPECT_EQ(data->SplitBy(), SplitRule::kPlace);
    EXPECT_EQ(data->Length(512), 512);
    // One end token more in a stream.
    EXPECT_EQ(data->Summary(Split::kTrain).tokens, layout == Layout::kJoin ? 18001 : 18000);
    EXPECT_EQ(data->Summary(Split::kAll).tokens, 20000);
  }
  const auto data =
      Open(">g\n" + one + "\n", {.format = {.alphabet = Alphabet::kDna, .layout = Layout::kJoin}});
  // Training reads only the beginning, up to its last token: 18001 of 20001, in windows of 17991.
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
  EXPECT_EQ(
      Open(five, {.format = {.alphabet = Alphabet::kDna, .layout = Layout::kJoin}})->Length(512),
      512);
  // Many short records are divided as before, few of them too.
  EXPECT_EQ(Open(">a\nACD\n>b\nEFG\n", {.format = kAllToTrain})->SplitBy(), SplitRule::kRecords);
  ExpectRefused(">a\n" + genome(1, 200) + "\n", "expected alphabet dna");
}

// Blocks of 8192: one in twenty is held out, alternately for valid and test, and no window of
// training reaches into one.
TEST_F(Divisions, BlocksAreHeldOutEverywhere) {
  constexpr std::string_view kBases = "ACGT";
  std::string letters(40 * 8192 - 1, 'A');  // and the end token
  for (size_t i = 0; i < letters.size(); ++i)
    letters[i] = kBases[RandomStream(3, "blocks").Bits(i) % 4];
  const DataOptions options{.format = {.alphabet = Alphabet::kDna,
                                       .layout = Layout::kJoin,
                                       .split_by = SplitRule::kBlocks}};
  const auto data = Open(">g\n" + letters + "\n", options);
  EXPECT_EQ(data->SplitBy(), SplitRule::kBlocks);
  EXPECT_EQ(data->Summary(Split::kValid).tokens, 8192);
  EXPECT_EQ(data->Summary(Split::kTest).tokens, 8192);
  EXPECT_EQ(data->Summary(Split::kTrain).tokens, 38 * 8192 - 1);
  // Finds the held-out blocks from the data alone.
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
  clipped.format.layout = Layout::kClip;
  EXPECT_THROW(Open(">g\n" + letters + "\n", clipped), Error);
}

// 5000 different sequences, 500 of which occur a second time under another name.
TEST_F(Divisions, SplitsGoByWhatRecordsHold) {
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

// The split of a record does not depend on its neighbours.
TEST_F(Divisions, MoreRecordsMoveNone) {
  const DataOptions options{.format = {.valid = 0.3, .test = 0.3}};
  std::string text;
  for (uint64_t i = 0; i < 50; ++i)
    text += ">r" + std::to_string(i) + "\n" + RandomSequence(i, 10) + "\n";
  const auto before = Sequences(*Open(text, options), Split::kValid);
  const auto after = Sequences(*Open(">new\nMMMMMMMMMM\n" + text, options), Split::kValid);
  const std::set<std::string> all(after.begin(), after.end());
  for (const std::string& sequence : before) EXPECT_TRUE(all.contains(sequence));
}

TEST_F(Divisions, AListHoldsOut) {
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
  ExpectRefused(text, "list: names 'family', which is not a record of '", {.format = format});
  ExpectRefused(text, "(2 of 3 names are not there)", {.format = format});
  WriteText(dir_ / "list", "\n\n");
  ExpectRefused(text, "list: holds no names of records", {.format = format});
  format.held_out = dir_ / "none";
  ExpectRefused(text, "none: cannot be read", {.format = format});
}

}  // namespace
}  // namespace favor
