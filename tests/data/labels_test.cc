#include "data/labels.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>

#include "tests/data/fasta_fixture.h"
#include "tests/gzip.h"

namespace favor {
namespace {

using data::kNoLabel;

class LabelTable : public testing::Test {
 protected:
  data::Labels Read(const std::string& text, const data::LabelOptions& options = {}) const {
    WriteText(dir_ / "labels", text);
    return data::Labels(dir_ / "labels", options);
  }
  void ExpectBad(const std::string& text, const std::string& says,
                 const data::LabelOptions& options = {}) const {
    try {
      Read(text, options);
      ADD_FAILURE() << "accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  static std::vector<uint32_t> Of(const data::Labels& labels, const std::string& name) {
    const auto found = labels.Of(name);
    return found ? std::vector<uint32_t>(found->begin(), found->end()) : std::vector<uint32_t>();
  }

  TempDir dir_;
};

TEST_F(LabelTable, ClassesAreNumberedByName) {
  const std::string text = "id\tkingdom\na\tvirus\nb\tanimal of the sea\r\n\nc\tvirus";
  for (const std::string& written : {text, Gzip(text)}) {
    const data::Labels labels = Read(written);
    EXPECT_EQ(labels.classes(), (std::vector<std::string>{"animal of the sea", "virus"}));
    EXPECT_EQ(labels.records(), 3);
    EXPECT_EQ(Of(labels, "a"), std::vector<uint32_t>{1});
    EXPECT_EQ(Of(labels, "b"), std::vector<uint32_t>{0});
    EXPECT_EQ(Of(labels, "c"), std::vector<uint32_t>{1});
    EXPECT_TRUE(Of(labels, "id").empty());
    EXPECT_TRUE(Of(labels, "d").empty());
  }
  EXPECT_EQ(Read("\xef\xbb\xbfid\tx\na\t1\nb\t2\n").records(), 2);
  // Only the first line may be a heading; the same label twice is one.
  EXPECT_EQ(Read("# x\ty\na\t1\nb\t2\na\t1\n").records(), 2);
  EXPECT_EQ(Read("a\t1\nid\t2\n").records(), 2);
  EXPECT_EQ(Of(Read("P1\tx\nP2\ty\n"), "sp|P2|NAME"), std::vector<uint32_t>{1});
  EXPECT_TRUE(Of(Read("P1\tx\nP2\ty\n"), "P2|NAME").empty());
}

TEST_F(LabelTable, ClassesOfTokens) {
  const data::Labels labels = Read("a\tHE.E\nb\t.\nc\t\n", {.per_token = true});
  EXPECT_EQ(labels.classes(), (std::vector<std::string>{"E", "H"}));
  EXPECT_EQ(Of(labels, "a"), (std::vector<uint32_t>{1, 0, kNoLabel, 0}));
  EXPECT_EQ(Of(labels, "b"), std::vector<uint32_t>{kNoLabel});
  EXPECT_TRUE(labels.Of("c").has_value());
}

TEST_F(LabelTable, NumbersAndTheirScale) {
  const data::Labels labels = Read("a\t1.5\nb\t-2e1\n", {.numbers = true});
  EXPECT_TRUE(labels.classes().empty());
  EXPECT_EQ(Of(labels, "b"), std::vector<uint32_t>{std::bit_cast<uint32_t>(-20.0f)});
  const data::Labels tokens = Read("a\t1,,3\n", {.numbers = true, .per_token = true});
  EXPECT_EQ(Of(tokens, "a"), (std::vector<uint32_t>{std::bit_cast<uint32_t>(1.0f), kNoLabel,
                                                    std::bit_cast<uint32_t>(3.0f)}));
  data::LabelStatistics statistics;
  EXPECT_EQ(statistics.Scale().deviation, 1);
  statistics.Add(Of(tokens, "a"));
  EXPECT_DOUBLE_EQ(statistics.Scale().mean, 2);
  EXPECT_DOUBLE_EQ(statistics.Scale().deviation, 1);
  statistics.Add(std::vector<uint32_t>{std::bit_cast<uint32_t>(8.0f), kNoLabel});
  EXPECT_DOUBLE_EQ(statistics.Scale().mean, 4);
  EXPECT_DOUBLE_EQ(statistics.Scale().deviation, std::sqrt((9.0 + 1 + 16) / 3));
  data::LabelStatistics equal;
  equal.Add(std::vector<uint32_t>(1000, std::bit_cast<uint32_t>(98.6f)));
  EXPECT_EQ(equal.Scale().deviation, 1);
  EXPECT_EQ(Of(Read("a\t1e-50\n", {.numbers = true}), "a"), std::vector<uint32_t>{0});
}

TEST_F(LabelTable, OfAModelThatKnowsItsClasses) {
  const data::Labels labels = Read("a\tx\n", {.classes = {"z", "y", "x"}});
  EXPECT_EQ(labels.classes(), (std::vector<std::string>{"z", "y", "x"}));
  EXPECT_EQ(Of(labels, "a"), std::vector<uint32_t>{2});
  ExpectBad("a\tx\nb\tw\n", "line 2: given the class 'w', expected one of: z, y, x",
            {.classes = {"z", "y", "x"}});
}

TEST_F(LabelTable, RefusesAnythingElse) {
  ExpectBad("", "holds no labels");
  ExpectBad("id\tclass\n", "holds no labels");
  ExpectBad("a x\n", "line 1: given 'a x', expected a name and a label");
  ExpectBad("a\tx\ty\n", "line 1");
  ExpectBad("a\tx\n\ty\n", "line 2");
  ExpectBad("a\tx\nb\t\n", "line 2: given no class");
  ExpectBad("a\tx\nb\tx\n", "holds one class, 'x'");
  ExpectBad("a\tx\nb\ty\na\ty\n", "line 3: 'a' has another label in line 1");
  ExpectBad("a\t.\n", "holds one class", {.per_token = true});
  ExpectBad("a\tx\nb\t\xff\n", "line 2: given", {});
  ExpectBad("a\tx\xc3\xa9\n", "expected a class in UTF-8", {.per_token = true});
  for (const std::string bad : {"x", "1x", "nan", "inf", "1e99", " 1", "1,2"})
    ExpectBad("a\t" + bad + "\n", "line 1: given '" + bad + "', expected a number",
              {.numbers = true});
  ExpectBad("a\t\n", "line 1: given no number", {.numbers = true});
  ExpectBad("a\t1,b\n", "line 1: given 'b'", {.numbers = true, .per_token = true});
  std::string many;
  for (int i = 0; i < 1'001; ++i) many += fmt::format("r{}\t{}\n", i, i);
  ExpectBad(many, "line 1001: more than 1000 classes");
}

class LabelledData : public FastaData {
 protected:
  DataOptions Options(const std::string& table, Task task = Task::kClassify,
                      LabelOf label_of = LabelOf::kSequence) const {
    WriteText(dir_ / "labels", table);
    DataOptions options{.task = task, .format = kAllToTrain};
    options.format.labels = dir_ / "labels";
    options.format.label_of = label_of;
    return options;
  }
  // All records of the train split in one batch.
  static Batch All(const Dataset& data, int64_t length) {
    return data.EvalBatch(Split::kTrain, {.index = 0, .batch = 100, .length = length});
  }
};

// Letters are numbered in the order of the alphabet: A 0, C 1, D 2.
TEST_F(LabelledData, OneLabelForEachRecord) {
  const auto data = Open(">a\nACD\n>b\nDD\n>none\nAA\n>c\nCACA\n",
                         Options("a\tyes\nb\tno\nc\tyes\nmissing\tno\n"));
  EXPECT_EQ(data->classes(), 2);
  EXPECT_EQ(data->ClassNames(), (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(data->ClassCounts(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(data->SplitBy(), SplitRule::kStratified);
  EXPECT_EQ(data->Summary(Split::kTrain).records, 3);
  const Batch batch = All(*data, 3);
  ASSERT_EQ(batch.batch, 3);
  std::map<Tokens, int32_t> labels;
  for (int64_t i = 0; i < 3; ++i)
    labels[Tokens(batch.tokens.begin() + 3 * i, batch.tokens.begin() + 3 * i + 3)] =
        batch.targets[static_cast<size_t>(i)];
  EXPECT_EQ(labels,
            (std::map<Tokens, int32_t>{{{0, 1, 2}, 1}, {{2, 2, kPadding}, 0}, {{1, 0, 1}, 1}}));
  EXPECT_TRUE(batch.values.empty());
  for (size_t i = 0; i < batch.tokens.size(); ++i)
    EXPECT_EQ(batch.mask[i], batch.tokens[i] == kPadding ? 0 : 1);
}

// A decoder reads a begin token first; the label of a token is that of the row that has read it.
TEST_F(LabelledData, LabelsOfTokens) {
  const std::string records = ">a\nACD\n", table = "a\tx.y\n";
  DataOptions options = Options(table, Task::kClassify, LabelOf::kToken);
  EXPECT_EQ(All(*Open(records, options), 4).targets, (Tokens{0, kNoTarget, 1, kNoTarget}));
  EXPECT_EQ(All(*Open(records, options), 2).targets, (Tokens{0, kNoTarget}));
  options.decoder = true;
  const Batch batch = All(*Open(records, options), 5);
  EXPECT_EQ(batch.tokens, (Tokens{kBegin, 0, 1, 2, kPadding}));
  EXPECT_EQ(batch.targets, (Tokens{kNoTarget, 0, kNoTarget, 1, kNoTarget}));
  EXPECT_EQ(All(*Open(records, options), 2).targets, (Tokens{kNoTarget, 0}));
  EXPECT_EQ(Open(records, options)->SplitBy(), SplitRule::kRecords);
}

// Mean 4, deviation 3; other data is scaled as the model knows it.
TEST_F(LabelledData, NumbersAreScaled) {
  const std::string records = ">a\nA\n>b\nC\n";
  DataOptions options = Options("a\t1\nb\t7\n", Task::kRegress);
  const auto values = [&] {
    Batch batch = All(*Open(records, options), 1);
    EXPECT_TRUE(batch.targets.empty());
    if (batch.tokens[0] == 1) std::swap(batch.values[0], batch.values[1]);
    return batch.values;
  };
  EXPECT_EQ(values(), (std::vector<float>{-1, 1}));
  EXPECT_EQ(Open(records, options)->classes(), 1);
  EXPECT_EQ(Open(records, options)->Scale().mean, 4);
  EXPECT_EQ(Open(records, options)->Scale().deviation, 3);
  EXPECT_EQ(Open(records, options)->SplitBy(), SplitRule::kRecords);
  options.scale = LabelScale{.mean = 1, .deviation = 2};
  EXPECT_EQ(values(), (std::vector<float>{0, 3}));
  options = Options("a\t1\nb\t,\n", Task::kRegress, LabelOf::kToken);
  ExpectRefused(records, "has 2 labels for 'b', which has 1 letters", options);
  options = Options("a\t1\nb\t\n", Task::kRegress, LabelOf::kToken);
  EXPECT_TRUE(std::isnan(values()[1]));
  EXPECT_EQ(CountTargets(All(*Open(records, options), 1)), 1);
}

// 40 records of one class and 20 of another: a tenth of each is valid, a fifth test.
TEST_F(LabelledData, StratifiedSplitsHaveTheSharesOfEachClass) {
  std::string records, table;
  for (uint64_t i = 0; i < 60; ++i) {
    records += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 20));
    table += fmt::format("r{}\t{}\n", i, i % 3 == 0 ? "rare" : "usual");
  }
  DataOptions options = Options(table);
  options.format.valid = 0.1;
  options.format.test = 0.2;
  const auto data = Open(records, options);
  EXPECT_EQ(data->ClassCounts(), (std::vector<int64_t>{14, 28}));
  const auto rare = [&](Split split) {
    const Batch batch = data->EvalBatch(split, {.index = 0, .batch = 100, .length = 4});
    return std::pair(std::ranges::count(batch.targets, 0), std::ssize(batch.targets));
  };
  EXPECT_EQ(rare(Split::kValid), std::pair(std::ptrdiff_t{2}, std::ptrdiff_t{6}));
  EXPECT_EQ(rare(Split::kTest), std::pair(std::ptrdiff_t{4}, std::ptrdiff_t{12}));
  EXPECT_EQ(rare(Split::kAll), std::pair(std::ptrdiff_t{20}, std::ptrdiff_t{60}));
  // The same whatever the order of the records.
  std::set<std::string> before, after;
  for (const std::string& letters : Sequences(*data, Split::kTest)) before.insert(letters);
  std::string reversed;
  for (uint64_t i = 60; i-- > 0;) reversed += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 20));
  const auto again = Open(reversed, options);
  for (const std::string& letters : Sequences(*again, Split::kTest)) after.insert(letters);
  EXPECT_EQ(before.size(), 12u);
  EXPECT_EQ(before, after);
  EXPECT_NE(data->Fingerprint(), "");
}

// Classes of fewer than four records are learned from, and nothing is held out for a share of 0;
// something is always left to learn from.
TEST_F(LabelledData, StratifiedSplitsOfFewRecords) {
  std::string records, table;
  for (uint64_t i = 0; i < 12; ++i) {
    records += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 9));
    table += fmt::format("r{}\t{}\n", i, i < 3 ? "three" : i < 7 ? "four" : "five");
  }
  DataOptions options = Options(table);
  const auto counts = [&](double valid, double test) {
    options.format.valid = valid;
    options.format.test = test;
    return Open(records, options)->ClassCounts();  // five, four, three
  };
  EXPECT_EQ(counts(0.1, 0), (std::vector<int64_t>{4, 3, 3}));
  EXPECT_EQ(counts(0, 0.1), (std::vector<int64_t>{4, 3, 3}));
  EXPECT_EQ(counts(0.1, 0.1), (std::vector<int64_t>{3, 2, 3}));
  EXPECT_EQ(counts(0.4, 0.4), (std::vector<int64_t>{1, 1, 3}));
  EXPECT_EQ(counts(0.01, 0.98), (std::vector<int64_t>{1, 1, 3}));
}

// All equal: nothing can be held out of them.
TEST_F(LabelledData, EqualRecordsOfOneClassAreLearnedFrom) {
  std::string records, table;
  for (uint64_t i = 0; i < 20; ++i) {
    records += fmt::format(">r{}\n{}\n", i, i < 10 ? "ACDA" : RandomSequence(i, 9));
    table += fmt::format("r{}\t{}\n", i, i < 10 ? "equal" : "other");
  }
  DataOptions options = Options(table);
  options.format.valid = options.format.test = 0.1;
  EXPECT_EQ(Open(records, options)->ClassCounts(), (std::vector<int64_t>{10, 8}));
}

// Records of long data are not cut up, as they would be without labels.
TEST_F(LabelledData, FewLongRecordsStayWhole) {
  std::string records, table;
  for (uint64_t i = 0; i < 40; ++i) {
    records += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 8300));
    table += fmt::format("r{}\t{}\n", i, i);
  }
  DataOptions options = Options(table, Task::kRegress);
  const auto data = Open(records, options);
  EXPECT_EQ(data->SplitBy(), SplitRule::kRecords);
  EXPECT_EQ(All(*data, 4).values.size(), 40u);
}

// Clusters and lists of names keep the labels of their records.
TEST_F(LabelledData, ClustersAndHeldOutRecords) {
  std::string records, table, clusters;
  std::map<Tokens, int32_t> classes;
  for (uint64_t i = 0; i < 40; ++i) {
    records += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 6));
    table += fmt::format("r{}\t{}\n", i, i % 3 == 0 ? "x" : "y");
    clusters += fmt::format("r{}\tr{}\n", i / 4 * 4, i);
  }
  WriteText(dir_ / "clusters", clusters);
  WriteText(dir_ / "names", "r1\nr5\nr6\n");
  const auto all = Open(records, Options(table));
  const auto add = [](const Dataset& data, Split split, std::map<Tokens, int32_t>& to) {
    const Batch batch = data.EvalBatch(split, {.index = 0, .batch = 100, .length = 6});
    for (int64_t i = 0; i < batch.batch; ++i)
      to[Tokens(batch.tokens.begin() + 6 * i, batch.tokens.begin() + 6 * i + 6)] =
          batch.targets[static_cast<size_t>(i)];
  };
  add(*all, Split::kTrain, classes);
  ASSERT_EQ(classes.size(), 40u);
  DataOptions options = Options(table);
  options.format.valid = options.format.test = 0.3;
  options.format.clusters = dir_ / "clusters";
  std::map<Tokens, int32_t> found;
  const auto clustered = Open(records, options);
  EXPECT_EQ(clustered->SplitBy(), SplitRule::kClusters);
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    EXPECT_GT(clustered->Summary(split).records, 0);
    add(*clustered, split, found);
  }
  EXPECT_EQ(found, classes);
  options = Options(table);
  options.format.held_out = dir_ / "names";
  found.clear();
  const auto listed = Open(records, options);
  EXPECT_EQ(listed->Summary(Split::kHeldOut).records, 3);
  add(*listed, Split::kHeldOut, found);
  EXPECT_EQ(found.size(), 3u);
  add(*listed, Split::kAll, found);
  EXPECT_EQ(found, classes);
  EXPECT_EQ(listed->ClassCounts()[0] + listed->ClassCounts()[1], 37);
}

// Equal records stay together, and a class of four has one record in each split.
TEST_F(LabelledData, SmallClassesAndEqualRecords) {
  std::string records, table;
  for (uint64_t i = 0; i < 4; ++i) {
    records += fmt::format(">few{}\n{}\n", i, RandomSequence(i, 9));
    table += fmt::format("few{}\tfew\n", i);
  }
  for (uint64_t i = 0; i < 40; ++i) {
    records += fmt::format(">same{}\n{}\n", i, RandomSequence(100 + i / 10, 9));
    table += fmt::format("same{}\tsame\n", i);
  }
  DataOptions options = Options(table);
  options.format.valid = options.format.test = 0.05;
  const auto data = Open(records, options);
  EXPECT_EQ(data->ClassCounts(), (std::vector<int64_t>{2, 20}));
  for (const Split split : {Split::kValid, Split::kTest}) {
    const Batch batch = data->EvalBatch(split, {.index = 0, .batch = 100, .length = 9});
    EXPECT_EQ(std::ranges::count(batch.targets, 0), 1);
    EXPECT_EQ(std::ranges::count(batch.targets, 1), 10);
  }
}

// Labels are part of what the data is.
TEST_F(LabelledData, OtherLabelsAreOtherData) {
  const std::string records = ">a\nACD\n>b\nDD\n>c\nCACA\n";
  const auto fingerprint = [&](const std::string& table) {
    return Open(records, Options(table))->Fingerprint();
  };
  EXPECT_EQ(fingerprint("a\t1\nb\t2\nc\t1\n"), fingerprint("c\t1\nb\t2\na\t1\n"));
  EXPECT_NE(fingerprint("a\t1\nb\t2\nc\t1\n"), fingerprint("a\t1\nb\t2\nc\t2\n"));
}

// Files of splits share the table; classes of the train split alone are counted.
TEST_F(LabelledData, FilesOfSplits) {
  DataOptions options = Options("a\tx\nb\ty\nv\ty\nt\tx\n");
  WriteText(dir_ / "v.fasta", ">v\nAAA\n>w\nCCC\n");
  WriteText(dir_ / "t.fasta", ">t\nDDD\n");
  options.format.valid_data = dir_ / "v.fasta";
  options.format.test_data = dir_ / "t.fasta";
  testing::internal::CaptureStderr();
  const auto data = Open(">a\nAC\n>b\nCA\n", options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("1 of its 5 records have no label"), std::string::npos) << said;
  EXPECT_EQ(said.find("names"), std::string::npos) << said;
  EXPECT_EQ(data->ClassCounts(), (std::vector<int64_t>{1, 1}));
  const auto targets = [&](Split split) {
    return data->EvalBatch(split, {.index = 0, .batch = 9, .length = 3}).targets;
  };
  EXPECT_EQ(targets(Split::kValid), Tokens{1});
  EXPECT_EQ(targets(Split::kTest), Tokens{0});
}

TEST_F(LabelledData, SaysWhatIsLeftOut) {
  testing::internal::CaptureStderr();
  Open(">a\nAC\n>b\nCA\n>c\nCC\n", Options("a\tx\nb\ty\nq\ty\nr\tx\n"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("1 of its 3 records have no label in"), std::string::npos) << said;
  EXPECT_NE(said.find("2 of its 4 names are not those of records"), std::string::npos) << said;
  testing::internal::CaptureStderr();
  Open(">a\nAC\n>b\nCA\n", Options("Entry\tkingdom\na\tx\nb\ty\n"));
  const std::string heading = testing::internal::GetCapturedStderr();
  EXPECT_NE(heading.find("no record is of the class 'kingdom' (a heading"), std::string::npos);
}

TEST_F(LabelledData, RefusesWhatDoesNotFit) {
  const std::string records = ">a\nACD\n>b\nDD\n", table = "a\tx\nb\ty\n";
  ExpectRefused(records, "names no record of", Options("q\tx\nr\ty\n"));
  ExpectRefused(records, "has 1 labels for 'b', which has 2 letters",
                Options("a\txyx\nb\tx\n", Task::kClassify, LabelOf::kToken));
  DataOptions options = Options(table);
  options.task = Task::kCausal;
  ExpectRefused(records, "given causal for", options);
  options = Options(table);
  options.format.labels = "";
  ExpectRefused(records, "given classify for", options);
  options.task = Task::kCausal;
  options.format.label_of = LabelOf::kToken;
  ExpectRefused(records, "label_of: given without labels", options);
  options = Options(table);
  options.format.layout = Layout::kCrop;
  ExpectRefused(records, "labels: given with another layout", options);
  options = Options(table);
  options.format.split_by = SplitRule::kPlace;
  ExpectRefused(records, "labels: given with split_by", options);
  options = Options("a\t1\nb\t2\n", Task::kRegress);
  options.format.split_by = SplitRule::kStratified;
  ExpectRefused(records, "split_by: given stratified", options);
  DataOptions none{.task = Task::kCausal, .format = {.split_by = SplitRule::kStratified}};
  ExpectRefused(records, "split_by: given stratified", none);
  options = Options(table);
  options.format.tokenizer = dir_ / "x.model";
  ExpectRefused(records, "tokenizer: given for", options);
  DataOptions task{.task = Task::kClassify, .format = {.label_of = LabelOf::kToken}};
  EXPECT_THROW(OpenData("task:listops", task), Error);
  task.format = {.split_by = SplitRule::kStratified};
  EXPECT_THROW(OpenData("task:listops", task), Error);
  WriteText(dir_ / "book.txt", "words");
  EXPECT_THROW(OpenData(dir_ / "book.txt", Options(table)), Error);
}

}  // namespace
}  // namespace favor
