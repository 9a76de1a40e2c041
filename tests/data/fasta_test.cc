// The FASTA reader: what it skips, what it refuses and where.
#include "data/fasta.h"

#include <gtest/gtest.h>

#include "favor/error.h"
#include "favor/random.h"
#include "tests/gzip.h"
#include "tests/temp_dir.h"

namespace favor::data {
namespace {

struct Seen {
  std::string name;
  int64_t line = 0;
  std::string letters;

  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << '>' << seen.name << " (" << seen.line << ") " << seen.letters;
}

std::vector<Seen> ReadAll(io::ByteStream& stream, Alphabet alphabet) {
  const auto letters = LettersOf(alphabet);
  FastaReader reader(stream, *letters);
  std::vector<Seen> all;
  for (FastaRecord record; reader.Next(record);) {
    const std::vector<int32_t> tokens(record.tokens.begin(), record.tokens.end());
    all.push_back({record.name, record.line, letters->Decode(tokens)});
  }
  FastaRecord more;
  EXPECT_FALSE(reader.Next(more)) << "more after the end";
  return all;
}

std::vector<Seen> Read(const std::string& text, Alphabet alphabet = Alphabet::kProtein) {
  io::ByteStream stream(text, "x.fa");
  return ReadAll(stream, alphabet);
}

void ExpectRefused(const std::string& text, const std::string& what,
                   Alphabet alphabet = Alphabet::kProtein) {
  try {
    Read(text, alphabet);
    ADD_FAILURE() << "accepted, expected: " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_EQ(std::string(error.what()), "x.fa: " + what);
  }
}

TEST(Fasta, ReadsRecords) {
  const std::vector<Seen> two = {{"a", 1, "MKV"}, {"b", 3, "ACDEF"}};
  EXPECT_EQ(Read(">a words of all kinds > *\nMKV\n>b\tx\nACD\nEF\n"), two);
  EXPECT_EQ(Read(">a\nMKV\n>b\nACD\nEF"), two) << "no line end at the end";
  EXPECT_EQ(Read(">a\r\nMKV\r\n>b\r\nACD\r\nEF\r\n"), two) << "Windows";
  EXPECT_EQ(Read(">a\r\nMKV\r\n>b\r\nACD\r\nEF\r"), two);
  EXPECT_EQ(Read(">a\nmkv\n>b\nAcdEF\n"), two) << "lower case";
  EXPECT_EQ(Read(">a\nMK V*\n>b\n  AC\tDE \nF*\n\n"), two) << "spaces and ends";
  EXPECT_EQ(Read(">a\nMKV*\r\n>b\nACDEF * \n"), two);
  EXPECT_EQ(Read(">a\nMKV\n>b\nACDEF\n*\n"), two);
  EXPECT_EQ(Read(""), std::vector<Seen>{});
  EXPECT_EQ(Read("\n\r\n\n"), std::vector<Seen>{});
}

TEST(Fasta, ReadsOverBlankLines) {
  EXPECT_EQ(Read("\n\r\n>a\n\nMK\n\n\nV\n\n>b\nACDEF\n\n"),
            (std::vector<Seen>{{"a", 3, "MKV"}, {"b", 10, "ACDEF"}}));
}

TEST(Fasta, KnowsEveryLetterOfBothAlphabets) {
  EXPECT_EQ(Read(">a\nACDEFGHIKLMNPQRSTVWYBZXUO\n")[0].letters, "ACDEFGHIKLMNPQRSTVWYBZXUO");
  EXPECT_EQ(Read(">a\nacgtnryswkmbdhv\n", Alphabet::kDna)[0].letters, "ACGTNRYSWKMBDHV");
}

TEST(Fasta, RefusesRecordsThatAreNone) {
  ExpectRefused(">a\nMK\n>last", "record 'last', line 3: has no sequence");
  ExpectRefused(">a\nMK\n>last\n", "record 'last', line 3: has no sequence");
  ExpectRefused(">only", "record 'only', line 1: has no sequence");
  ExpectRefused(">a\n>b\nMK\n", "record 'a', line 1: has no sequence");
  ExpectRefused(">a\n\n \n>b\nMK\n", "record 'a', line 1: has no sequence");
  ExpectRefused(">a\n*\n", "record 'a', line 1: has no sequence");
  ExpectRefused(">\nMK\n", "line 1: a record without a name");
  ExpectRefused(">a\nMK\n> b\nMK\n", "line 3: a record without a name");
  ExpectRefused(">a\nMK\n>", "line 3: a record without a name");
  ExpectRefused(">\r\nMK\r\n", "line 1: a record without a name");
}

TEST(Fasta, RefusesWhatIsBeforeTheFirstRecord) {
  ExpectRefused("MKV\n", "line 1, column 1: given 'M', expected '>' and the name of a record");
  ExpectRefused("\n\nMKV\n>a\nMK\n",
                "line 3, column 1: given 'M', expected '>' and the name of a record");
  ExpectRefused(std::string("\x7f"
                            "ELF\0\1",
                            6),
                "line 1, column 1: given '\\x7f', expected '>' and the name of a record");
  ExpectRefused("\rMKV\n", "line 1, column 1: expected '>' and the name of a record");
}

TEST(Fasta, SaysWhereALetterIsWrong) {
  const std::string protein =
      "expected a letter of the protein alphabet "
      "(ACDEFGHIKLMNPQRSTVWYBZXUO)";
  ExpectRefused(">a\nMKV\n>b c\nACD\nEF1G\n",
                "record 'b', line 5, column 3: given '1', " + protein);
  ExpectRefused(">a\n1\n", "record 'a', line 2, column 1: given '1', " + protein);
  ExpectRefused(">a\nM K-V\n", "record 'a', line 2, column 4: given '-', " + protein);
  ExpectRefused(">a\r\nMK\r\nJ\r\n", "record 'a', line 3, column 1: given 'J', " + protein);
  ExpectRefused(">a\nMK>b\nMK\n", "record 'a', line 2, column 3: given '>', " + protein);
  ExpectRefused(">a\nMKE\n",
                "record 'a', line 2, column 3: given 'E', expected a letter of the dna alphabet "
                "(ACGTNRYSWKMBDHV)",
                Alphabet::kDna);
  ExpectRefused(std::string(">a\nMK\0V\n", 8),
                "record 'a', line 2, column 3: given '\\x00', " + protein);
}

TEST(Fasta, RefusesWhatFollowsAnEnd) {
  ExpectRefused(">a\nMK*V\n",
                "record 'a', line 2, column 4: more after '*', which ends a sequence");
  ExpectRefused(">a\nMK*\nV\n",
                "record 'a', line 3, column 1: more after '*', which ends a sequence");
  ExpectRefused(">a\nMK**\n",
                "record 'a', line 2, column 4: more after '*', which ends a sequence");
  ExpectRefused(">a b\rMKV\nACD\n", "line 1, column 5: a carriage return inside a line");
  ExpectRefused(">a\nMK\rV\n", "record 'a', line 2, column 3: a carriage return inside a line");
}

// Headers and lines that begin, end and break anywhere around the end of a piece of a stream
// (256 KiB), in a file and through gzip.
TEST(Fasta, PiecesOfAStreamAreNotSeen) {
  const TempDir dir;
  const RandomStream random(1, "letters");
  constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWY";
  std::string first;
  while (first.size() < 600000) first += kLetters[random.Bits(first.size()) % 20];
  for (const std::string& end : {std::string("\n"), std::string("\r\n")}) {
    for (size_t shift = 0; shift < 26; ++shift) {
      const std::string name = "first";
      std::string text = ">" + name + end;
      // The piece ends `shift` bytes after these letters: in short lines and a header.
      const size_t before = (1 << 18) - shift - text.size();
      text += first.substr(0, before) + end + "MK" + end + "V" + end + ">second word" + end;
      text += first + end + ">third" + end + "WY" + end;
      const std::vector<Seen> expected = {
          {name, 1, first.substr(0, before) + "MKV"}, {"second", 5, first}, {"third", 7, "WY"}};
      for (const bool gzip : {false, true}) {
        if (gzip && shift % 8 != 0) continue;
        WriteText(dir / "x.fa", gzip ? Gzip(text) : text);
        io::ByteStream stream(dir / "x.fa");
        EXPECT_TRUE(ReadAll(stream, Alphabet::kProtein) == expected)
            << shift << (gzip ? ", gzip" : "");
      }
    }
  }
}

TEST(Fasta, ColumnsGoOnOverPieces) {
  const TempDir dir;
  WriteText(dir / "x.fa", ">a\n" + std::string(700000, 'M') + "?\n");
  io::ByteStream stream(dir / "x.fa");
  try {
    ReadAll(stream, Alphabet::kProtein);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("record 'a', line 2, column 700001: given '?'"),
              std::string::npos)
        << error.what();
  }
}

TEST(Fasta, RefusesHeadersWithoutEnd) {
  ExpectRefused(">" + std::string(2 << 20, 'a'),
                "line 1, column 2097154: a header longer than 1048576 bytes");
}

}  // namespace
}  // namespace favor::data
