#include "favor/records.h"

#include "tests/data/fasta_fixture.h"
#include "tests/gzip.h"
#include "tests/npy_file.h"

namespace favor {
namespace {

class Records : public testing::Test {
 protected:
  std::vector<Record> Read(const std::string& source, const RecordOptions& options = {}) const {
    const auto reader = OpenRecords(source, options);
    std::vector<Record> all, again;
    for (Record record; reader->Next(record);) all.push_back(record);
    Record more;
    EXPECT_FALSE(reader->Next(more));
    reader->Rewind();
    for (Record record; reader->Next(record);) again.push_back(record);
    EXPECT_EQ(again.size(), all.size());
    for (size_t i = 0; i < all.size() && i < again.size(); ++i) {
      EXPECT_EQ(all[i].name, again[i].name);
      EXPECT_EQ(all[i].tokens, again[i].tokens);
    }
    return all;
  }

  std::string Text(const Record& record) const {
    return OpenVocabulary("bytes")->Decode(record.tokens);
  }

  void ExpectRefused(const std::string& source, const std::string& says,
                     const RecordOptions& options = {}) const {
    try {
      Read(source, options);
      ADD_FAILURE() << "accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }

  TempDir dir_;
};

TEST_F(Records, OfFastaInTheOrderOfTheFiles) {
  WriteText(dir_ / "b.fasta", ">two words\nMK\nTA\n>one\nW\n");
  WriteText(dir_ / "a.fasta", Gzip(">two\nAC\n"));  // names may occur again
  const auto letters = OpenVocabulary("protein");
  const std::vector<Record> all = Read((dir_ / "b.fasta") + "," + (dir_ / "a.fasta"));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "two");
  EXPECT_EQ(all[0].tokens, letters->Encode("MKTA", "test"));
  EXPECT_EQ(all[1].name, "one");
  EXPECT_EQ(all[1].tokens, letters->Encode("W", "test"));
  EXPECT_EQ(all[2].name, "two");
  EXPECT_EQ(all[2].tokens, letters->Encode("AC", "test"));
}

TEST_F(Records, OfTextAreLinesAfterALineEnd) {
  WriteText(dir_ / "x.txt", "ab\n\n c\r\nlast");
  const std::vector<Record> all = Read(dir_ / "x.txt");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(Text(all[0]), "\nab\n");
  EXPECT_EQ(Text(all[1]), "\n\n");
  EXPECT_EQ(Text(all[2]), "\n c\r\n");
  EXPECT_EQ(Text(all[3]), "\nlast\n");
  EXPECT_EQ(all[3].name, "4");
}

TEST_F(Records, LinesEndWithTheirFile) {
  WriteText(dir_ / "a.txt", "one\nno end");
  WriteText(dir_ / "b.txt", "two\n");
  const std::vector<Record> all = Read((dir_ / "a.txt") + "," + (dir_ / "b.txt"));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(Text(all[1]), "\nno end\n");
  EXPECT_EQ(Text(all[2]), "\ntwo\n");
  EXPECT_EQ(all[2].name, "3");
}

// Letters are judged over the whole file, once.
TEST_F(Records, FewLettersAreNotJudged) {
  std::string bases;
  for (int i = 0; i < 15; ++i) bases += "ACGT";
  WriteText(dir_ / "x.fasta", ">a\n" + bases + "\n");
  EXPECT_EQ(Read(dir_ / "x.fasta").size(), 1u);
  WriteText(dir_ / "x.fasta", ">a\n" + bases + bases + "\n>b\nMKTAYIWWW\n");
  EXPECT_EQ(Read(dir_ / "x.fasta").size(), 2u);
}

// Longer than what is read at a time, and lines around its ends.
TEST_F(Records, OfLongText) {
  std::string text;
  std::vector<std::string> lines;
  for (const int size : {5, 3000000, 0, 1, 1048570, 77}) {
    lines.emplace_back(static_cast<size_t>(size), static_cast<char>('a' + std::ssize(lines)));
    text += lines.back() + "\n";
  }
  WriteText(dir_ / "x.txt", text);
  WriteText(dir_ / "y.txt", Gzip(text));
  for (const std::string name : {"x.txt", "y.txt"}) {
    const std::vector<Record> all = Read(dir_ / name);
    ASSERT_EQ(all.size(), lines.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(Text(all[i]), "\n" + lines[i] + "\n");
  }
}

// Each window begins with the last token of the one before.
TEST_F(Records, OfTextInWindows) {
  WriteText(dir_ / "x.txt", "abcdefghi");
  std::vector<Record> all = Read(dir_ / "x.txt", {.window = 3});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(Text(all[0]), "abcd");
  EXPECT_EQ(Text(all[1]), "defg");
  EXPECT_EQ(Text(all[2]), "ghi");
  EXPECT_EQ(all[0].name, "0");
  EXPECT_EQ(all[1].name, "3");
  EXPECT_EQ(all[2].name, "6");
  std::string text;
  for (int i = 0; i < 300000; ++i)
    text += i % 70 == 0 ? "\n" : std::string(1, static_cast<char>('a' + i % 23));
  WriteText(dir_ / "y.txt", text);
  all = Read(dir_ / "y.txt", {.window = 1000});
  std::string joined(1, text[0]);
  for (const Record& record : all) joined += Text(record).substr(1);
  EXPECT_EQ(joined, text);
}

TEST_F(Records, OfPictures) {
  WriteText(dir_ / "x.npy", NpyFile("|u1", "(2, 1, 3)", std::string("\x01\x02\x03\x04\x05\x06")));
  const std::vector<Record> all = Read(dir_ / "x.npy");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].tokens, (Tokens{1, 2, 3}));
  EXPECT_EQ(all[1].tokens, (Tokens{4, 5, 6}));
  EXPECT_EQ(all[1].name, "1");
  EXPECT_EQ(OpenRecords(dir_ / "x.npy", {})->Shape(), "1 × 3 × 1");
}

TEST_F(Records, RefusesWhatItCannotRead) {
  ExpectRefused("task:copy", "expected a file");
  ExpectRefused(dir_ / "missing.fasta", "missing.fasta");
  WriteText(dir_ / "x.fasta", "");
  ExpectRefused(dir_ / "x.fasta", "holds no records");
  WriteText(dir_ / "x.fasta", ">a\nMK1\n");
  ExpectRefused(dir_ / "x.fasta", "line 2");
  std::string dna = ">a\n";
  for (int i = 0; i < 50; ++i) dna += "ACGT";
  WriteText(dir_ / "x.fasta", dna + "\n");
  ExpectRefused(dir_ / "x.fasta", "expected alphabet dna");
  WriteText(dir_ / "x.fna", dna + "\n");
  ExpectRefused(dir_ / "x.fna", "expected dna");
  WriteText(dir_ / "x.txt", "");
  ExpectRefused(dir_ / "x.txt", "holds no text");
  ExpectRefused(dir_ / "x.txt", "holds no text", {.window = 4});
}

}  // namespace
}  // namespace favor
