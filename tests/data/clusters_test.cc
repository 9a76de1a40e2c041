#include "data/clusters.h"

#include <fmt/format.h>

#include "tests/data/fasta_fixture.h"
#include "tests/gzip.h"

namespace favor {
namespace {

class ClustersTest : public FastaData {
 protected:
  data::Clusters Read(const std::string& text) const {
    WriteText(dir_ / "clusters", text);
    return data::Clusters(dir_ / "clusters");
  }
  void ExpectBad(const std::string& text, const std::string& says) const {
    try {
      Read(text);
      ADD_FAILURE() << "accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
};

TEST_F(ClustersTest, PairsOfARepresentativeAndAMember) {
  const std::string text = "a\ta\na\tb\nc\tc\r\n\nc\td";
  for (const std::string& written : {text, Gzip(text)}) {
    const data::Clusters clusters = Read(written);
    EXPECT_EQ(clusters.clusters(), 2);
    EXPECT_EQ(clusters.Of("a"), clusters.Of("b"));
    EXPECT_EQ(clusters.Of("c"), clusters.Of("d"));
    EXPECT_NE(clusters.Of("a"), clusters.Of("c"));
    EXPECT_TRUE(clusters.Of("a").has_value());
    EXPECT_FALSE(clusters.Of("e").has_value());
  }
}

// mmseqs keeps only the accession of a name of UniProt.
TEST_F(ClustersTest, AccessionsOfUniProt) {
  const data::Clusters clusters = Read("Q7X0E5\tQ7X0E5\nQ7X0E5\tW0FSK4\n");
  EXPECT_TRUE(clusters.Of("tr|W0FSK4|W0FSK4_9FLAV").has_value());
  EXPECT_EQ(clusters.Of("tr|W0FSK4|W0FSK4_9FLAV"), clusters.Of("sp|Q7X0E5|X"));
  EXPECT_FALSE(clusters.Of("tr|W0FSK5|W0FSK4").has_value());
  EXPECT_FALSE(clusters.Of("W0FSK4|x").has_value());
}

TEST_F(ClustersTest, ListsOfCdHit) {
  const data::Clusters clusters = Read(
      ">Cluster 0\n0\t297aa, >sp|A|X... *\n1\t290aa, >b... at 95.17%\n"
      ">Cluster 1\n0\t12aa, >c... *\n");
  EXPECT_EQ(clusters.clusters(), 2);
  EXPECT_EQ(clusters.Of("sp|A|X"), clusters.Of("b"));
  EXPECT_NE(clusters.Of("c"), clusters.Of("b"));
}

TEST_F(ClustersTest, RefusesAnythingElse) {
  ExpectBad("", "holds no clusters");
  ExpectBad("a b\n", "line 1: given 'a b', expected two names");
  ExpectBad("a\tb\tc\n", "line 1");
  ExpectBad("a\ta\n\tb\n", "line 2");
  ExpectBad("a\t\n", "line 1");
  ExpectBad("a\tb\nc\tb\n", "line 2: 'b' is in two clusters");
  ExpectBad(">Cluster 0\n0\t297aa, >x *\n", "line 2");
  ExpectBad(">Cluster 0\n>Cluster 1\n", "holds no clusters");
}

// Sequences are what is read: all but the last letter.
// A hundred clusters of six: none is in two splits, and shares are about right.
TEST_F(ClustersTest, RelativesStayTogether) {
  std::string fasta, clusters;
  for (uint64_t i = 0; i < 600; ++i) {
    fasta += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 12));
    clusters += fmt::format("r{}\tr{}\n", i % 100, i);
  }
  WriteText(dir_ / "c.tsv", clusters);
  DataFormat format{.valid = 0.2, .test = 0.2, .clusters = dir_ / "c.tsv"};
  const auto data = Open(fasta, {.format = format});
  EXPECT_EQ(data->SplitBy(), SplitRule::kClusters);
  std::map<std::string, Split> split_of;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const std::vector<std::string> records = Sequences(*data, split);
    EXPECT_GT(records.size(), split == Split::kTrain ? 250u : 50u);
    EXPECT_EQ(records.size() % 6, 0u);
    for (const std::string& record : records) split_of[record] = split;
  }
  ASSERT_EQ(split_of.size(), 600u);
  for (uint64_t i = 0; i < 600; ++i)
    EXPECT_EQ(split_of.at(RandomSequence(i, 11)), split_of.at(RandomSequence(i % 100, 11))) << i;
  format.split_by = SplitRule::kClusters;
  EXPECT_EQ(Open(fasta, {.format = format})->Fingerprint(), data->Fingerprint());
}

TEST_F(ClustersTest, EveryRecordMustBeInACluster) {
  WriteText(dir_ / "c.tsv", "a\ta\n");
  ExpectRefused(">a\nMK\n>b\nMT\n>c\nMW\n", "has no cluster for 'b'",
                {.format = {.clusters = dir_ / "c.tsv"}});
  ExpectRefused(">a\nMK\n", "expected a file of clusters with it",
                {.format = {.split_by = SplitRule::kClusters}});
  ExpectRefused(">a\nMK\n", "given place with clusters",
                {.format = {.split_by = SplitRule::kPlace, .clusters = dir_ / "c.tsv"}});
}

TEST_F(ClustersTest, SplitsFromFiles) {
  WriteText(dir_ / "v.fasta", ">v1\nMKTAY\n>v2\nMKTAW\n");
  WriteText(dir_ / "t.fasta", ">t1\nWWWWW\n");
  std::string fasta;
  for (uint64_t i = 0; i < 40; ++i) fasta += fmt::format(">r{}\n{}\n", i, RandomSequence(i, 12));
  const auto all =
      Open(fasta, {.format = {.valid_data = dir_ / "v.fasta", .test_data = dir_ / "t.fasta"}});
  EXPECT_EQ(all->SplitBy(), SplitRule::kFiles);
  EXPECT_EQ(all->Summary(Split::kTrain).records, 40);
  EXPECT_EQ(all->Summary(Split::kValid).records, 2);
  EXPECT_EQ(Sequences(*all, Split::kTest), (std::vector<std::string>{"WWWW"}));
  // Without valid_data, a share of the data validates.
  const auto some = Open(fasta, {.format = {.valid = 0.3, .test_data = dir_ / "t.fasta"}});
  EXPECT_EQ(some->Summary(Split::kTest).records, 1);
  EXPECT_EQ(some->Summary(Split::kTrain).records + some->Summary(Split::kValid).records, 40);
  EXPECT_GT(some->Summary(Split::kValid).records, 4);
  EXPECT_NE(some->Fingerprint(), all->Fingerprint());
  // A record that is also learned from is mentioned, not removed.
  WriteText(dir_ / "t.fasta", ">t1\n" + RandomSequence(3, 12) + "\n>t2\nWW\n");
  testing::internal::CaptureStderr();
  const auto leaking =
      Open(fasta, {.format = {.valid_data = dir_ / "v.fasta", .test_data = dir_ / "t.fasta"}});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("1 of its 2 records are also in"),
            std::string::npos);
  EXPECT_EQ(leaking->Summary(Split::kTest).records, 2);
  ExpectRefused(fasta, "missing", {.format = {.valid_data = dir_ / "missing.fasta"}});
  ExpectRefused(fasta, "expected valid_data or test_data with it",
                {.format = {.split_by = SplitRule::kFiles}});
  WriteText(dir_ / "c.tsv", "a\ta\n");
  ExpectRefused(fasta, "expected one",
                {.format = {.clusters = dir_ / "c.tsv", .valid_data = dir_ / "v.fasta"}});
  ExpectRefused(fasta, "expected one of them",
                {.format = {.held_out = dir_ / "c.tsv", .valid_data = dir_ / "v.fasta"}});
}

TEST_F(ClustersTest, AreOfFastaOnly) {
  WriteText(dir_ / "x.txt", std::string(1000, 'a'));
  for (const DataFormat& format : {DataFormat{.clusters = "c"}, DataFormat{.valid_data = "v"},
                                   DataFormat{.split_by = SplitRule::kFiles}})
    EXPECT_THROW(OpenData(dir_ / "x.txt", {.format = format}), Error);
}

}  // namespace
}  // namespace favor
