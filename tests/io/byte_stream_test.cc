#include "io/byte_stream.h"

#include <gtest/gtest.h>

#include "favor/error.h"
#include "favor/random.h"
#include "tests/gzip.h"
#include "tests/temp_dir.h"

namespace favor::io {
namespace {

std::string Rest(ByteStream& stream) {
  std::string text;
  for (std::string_view piece = stream.Next(); !piece.empty(); piece = stream.Next()) text += piece;
  EXPECT_TRUE(stream.Next().empty()) << "more after the end";
  return text;
}

std::string FromMemory(const std::string& bytes) {
  ByteStream stream(bytes, "x.gz");
  return Rest(stream);
}

std::string FromFile(const std::string& bytes) {
  const TempDir dir;
  WriteText(dir / "x", bytes);
  ByteStream stream(dir / "x");
  return Rest(stream);
}

// Random text, which does not compress well.
std::string Noise(size_t size) {
  const RandomStream random(1, "bytes");
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + random.Bits(i) % 26);
  return text;
}

void ExpectDamaged(const std::string& bytes, const std::string& says) {
  try {
    FromMemory(bytes);
    FAIL() << "accepted, expected: " << says;
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_EQ(what.rfind("x.gz: damaged gzip data: ", 0), 0u) << what;
    EXPECT_NE(what.find(says), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

// Sizes around the size of a piece.
TEST(ByteStream, GivesBackPlainAndCompressedBytes) {
  for (const size_t size : {0U, 1U, 2U, 3U, 1000U, 262143U, 262144U, 262145U, 1000000U}) {
    const std::string text = Noise(size);
    EXPECT_TRUE(FromMemory(text) == text) << size;
    EXPECT_TRUE(FromFile(text) == text) << size;
    EXPECT_TRUE(FromMemory(Gzip(text)) == text) << size;
    EXPECT_TRUE(FromFile(Gzip(text)) == text) << size;
  }
  const std::string zeros(3000000, '\0');  // 1000 times larger than its file
  EXPECT_TRUE(FromFile(Gzip(zeros)) == zeros);
}

TEST(ByteStream, TheFirstBytesSayWhatItIs) {
  const std::string plain = "\x1f\x8c not gzip", compressed = Gzip("text");
  EXPECT_FALSE(ByteStream(plain, "x").compressed());
  EXPECT_TRUE(ByteStream(compressed, "x").compressed());
  EXPECT_EQ(FromMemory(plain), plain);
  EXPECT_EQ(ByteStream(plain, "a name").name(), "a name");
}

TEST(ByteStream, MembersFollowEachOther) {
  EXPECT_EQ(FromMemory(Gzip("ab") + Gzip("") + Gzip("c") + Gzip("")), "abc");
  EXPECT_EQ(FromMemory(Gzip("") + Gzip("a")), "a");
  // Members that end anywhere in a piece.
  std::string bytes, text;
  for (int i = 0; i < 40; ++i) {
    const std::string piece = Noise(static_cast<size_t>(i) * 1000);
    bytes += Gzip(piece);
    text += piece;
  }
  ASSERT_GT(bytes.size(), 262144u);
  EXPECT_TRUE(FromFile(bytes) == text);
  EXPECT_TRUE(FromMemory(bytes) == text);
}

// Fewer than two bytes cannot be recognised as gzip.
TEST(ByteStream, EveryCutIsSeen) {
  const std::string one = Gzip(Noise(100)), two = one + Gzip("more");
  for (size_t size = 2; size < one.size(); ++size) ExpectDamaged(one.substr(0, size), "cut off");
  for (size_t size = one.size() + 1; size < two.size(); ++size)
    ExpectDamaged(two.substr(0, size), "cut off");
  EXPECT_EQ(FromMemory(two.substr(0, one.size())), Noise(100));
  const std::string large = Gzip(Noise(2000000));
  ExpectDamaged(large.substr(0, large.size() / 2), "cut off");
}

TEST(ByteStream, RefusesWhatFollowsTheEnd) {
  for (const std::string& tail : {std::string("garbage"), std::string(5, '\0'),
                                  std::string("\x1f\x8c\x08"), std::string("x")})
    ExpectDamaged(Gzip("text") + tail, "");
  ExpectDamaged(Gzip("text") + "garbage", "other data follows its end");
}

// Deflate's own checks and the checksum at the end see every change that matters. The others are in
// the header's time and system (bytes 4 to 9), its flag "text", and bits between deflate's end and
// the checksum.
TEST(ByteStream, DamageIsSeen) {
  const std::string text = Noise(300), good = Gzip(text);
  int harmless = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 1; bit < 256; bit *= 2) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ bit);
      try {
        EXPECT_TRUE(FromMemory(bad) == (at < 2 ? bad : text)) << at << ", bit " << bit;
        harmless += at < 2 || (at >= 4 && at < 10) ? 0 : 1;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
        EXPECT_TRUE(at == 2 || at == 3 || at >= 10) << at;
      }
    }
  }
  EXPECT_LE(harmless, 1 + 7);
}

// Files compressed by other programs are told apart from damage, and from text that looks similar.
TEST(ByteStream, RefusesOtherFormatsByName) {
  struct Case {
    std::string bytes, says;
  };
  const auto bytes = [](const char* text, size_t size) { return std::string(text, size); };
  const std::string bzip2 =
                        "is compressed by bzip2, expected plain or gzip data: expand it with "
                        "'bzip2 -d'",
                    xz = "is compressed by xz, expected plain or gzip data: expand it with 'xz -d'",
                    zstd =
                        "is compressed by zstd, expected plain or gzip data: expand it with "
                        "'zstd -d'",
                    zip = "is a zip archive, expected plain or gzip data: expand it with 'unzip'";
  const std::vector<Case> cases = {
      {bytes("BZh91AY&SY\x0e\xad\x3e\xee", 14), bzip2},
      {bytes("BZh1\x17\x72\x45\x38\x50\x90\0\0\0\0", 14), bzip2},  // an empty file
      {bytes("\xfd\x37\x7a\x58\x5a\0\0\x04\xe6\xd6", 10), xz},
      {bytes("\x28\xb5\x2f\xfd\x04\x58", 6), zstd},
      {bytes("PK\x03\x04\x0a\0\0\0", 8), zip},
      {bytes("PK\x05\x06\0\0\0\0", 8), zip},
      {bytes("PK\x07\x08PK\x03\x04", 8), zip}};
  for (const Case& each : cases) {
    for (const bool file : {false, true}) {
      try {
        file ? FromFile(each.bytes) : FromMemory(each.bytes);
        FAIL() << each.says;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
        EXPECT_TRUE(std::string(error.what()).ends_with(": " + each.says)) << error.what();
      }
    }
  }
  for (const std::string& text :
       {std::string("BZh9 is a header"), std::string("PK and more"), std::string("PK\x03"),
        std::string("7zXZ"), std::string("\x28\xb5\x2f")})
    EXPECT_EQ(FromMemory(text), text);
}

TEST(ByteStream, ReportsFilesThatCannotBeRead) {
  const TempDir dir;
  EXPECT_THROW(ByteStream(dir / "none"), Error);
  for (const std::string& path : {dir.path().string(), std::string("/dev/zero")}) {
    try {
      ByteStream stream(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_EQ(std::string(error.what()),
                path + ": given a device, pipe or folder, expected a file");
    }
  }
}

}  // namespace
}  // namespace favor::io
