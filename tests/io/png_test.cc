#include "io/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "favor/error.h"
#include "favor/random.h"
#include "tests/png_file.h"
#include "tests/temp_dir.h"

namespace favor::io {
namespace {

Picture Parse(const std::string& file) { return ParsePng(std::as_bytes(std::span(file)), "x.png"); }

std::vector<uint8_t> Noise(size_t count) {
  const RandomStream random(1, "pixels");
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(random.Bits(i)));
  return bytes;
}

void ExpectRefused(const std::string& file, const std::string& says) {
  try {
    Parse(file);
    FAIL() << "accepted, expected: " << says;
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_EQ(what.rfind("x.png: ", 0), 0u) << what;
    EXPECT_NE(what.find(says), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

// A chunk with a correct checksum.
std::string Chunk(const std::string& kind, const std::string& data) {
  const auto number = [](uint32_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
    return text;
  };
  const std::string body = kind + data;
  const auto checksum = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  return number(static_cast<uint32_t>(data.size())) + body + number(checksum);
}

constexpr size_t kHeaderEnd = 8 + 25;  // signature and IHDR

std::string WithHeader(const std::string& sizes, const std::string& kind) {
  const std::string file = Png(2, 3, Noise(6));
  return file.substr(0, 8) + Chunk("IHDR", sizes + kind) + file.substr(kHeaderEnd);
}

TEST(Png, ReadsGreyAndRgbInRasterOrder) {
  for (const bool interlaced : {false, true}) {
    for (const auto& [height, width] :
         {std::pair{1, 1}, {2, 3}, {7, 5}, {8, 8}, {13, 40}, {1, 9}, {9, 1}}) {
      for (const bool rgb : {false, true}) {
        const int channels = rgb ? 3 : 1;
        const auto pixels = Noise(static_cast<size_t>(height * width * channels));
        const Picture picture = Parse(Png(
            height, width, pixels,
            {.color = rgb ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, .interlaced = interlaced}));
        EXPECT_EQ(picture.height, height);
        EXPECT_EQ(picture.width, width);
        EXPECT_EQ(picture.channels, channels);
        EXPECT_EQ(picture.pixels, pixels) << height << " × " << width << " × " << channels;
      }
    }
  }
}

TEST(Png, ValuesAreThoseStored) {
  const auto pixels = Noise(64);
  EXPECT_EQ(Parse(Png(8, 8, pixels, {.gamma = 1.0})).pixels, pixels);
}

TEST(Png, WritesWhatItReads) {
  const TempDir dir;
  for (const auto& [height, width] : {std::pair{1, 1}, {2, 3}, {28, 28}, {1, 9}, {300, 2}}) {
    for (const int channels : {1, 3}) {
      const Picture picture{.height = height,
                            .width = width,
                            .channels = channels,
                            .pixels = Noise(static_cast<size_t>(height * width * channels))};
      WritePng(dir / "a.png", picture);
      const Picture back = ReadPng(dir / "a.png");
      EXPECT_EQ(back.height, height);
      EXPECT_EQ(back.width, width);
      EXPECT_EQ(back.channels, channels);
      EXPECT_EQ(back.pixels, picture.pixels) << height << " × " << width << " × " << channels;
      EXPECT_EQ(EncodePng(picture), ReadText(dir / "a.png"));
    }
  }
  EXPECT_EQ(dir.Entries(), 1);
}

TEST(Png, RefusesToWriteWhatIsNotAPicture) {
  const TempDir dir;
  const auto refused = [&](const Picture& picture) {
    try {
      WritePng(dir / "a.png", picture);
      FAIL() << picture.height << " × " << picture.width << " × " << picture.channels;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    }
    EXPECT_EQ(dir.Entries(), 0);
  };
  refused({});
  refused({.height = 1, .width = 1, .channels = 1, .pixels = {}});
  refused({.height = 2, .width = 2, .channels = 1, .pixels = Noise(5)});
  refused({.height = 1, .width = 2, .channels = 2, .pixels = Noise(4)});
  refused({.height = -1, .width = -4, .channels = 1, .pixels = Noise(4)});
  refused({.height = int64_t{1} << 40, .width = int64_t{1} << 40, .channels = 3, .pixels = {}});
  EXPECT_THROW(WritePng(dir / "no/a.png", {.height = 1, .width = 1, .channels = 1, .pixels = {0}}),
               Error);
}

TEST(Png, RefusesOtherKindsByName) {
  const auto rows = Noise(64);
  ExpectRefused(Png(2, 2, rows, {.bits = 16}), "has 16 bits per channel, expected 8");
  ExpectRefused(Png(2, 2, rows, {.color = PNG_COLOR_TYPE_RGB, .bits = 16}), "has 16 bits");
  ExpectRefused(Png(2, 8, rows, {.bits = 1}), "has 1 bit per channel, expected 8");
  ExpectRefused(Png(2, 8, rows, {.bits = 2}), "has 2 bits per channel");
  ExpectRefused(Png(2, 8, rows, {.bits = 4}), "has 4 bits per channel");
  ExpectRefused(Png(2, 2, rows, {.color = PNG_COLOR_TYPE_PALETTE}), "has a palette");
  ExpectRefused(Png(2, 2, {0, 0}, {.color = PNG_COLOR_TYPE_PALETTE, .bits = 1}), "has a palette");
  ExpectRefused(Png(2, 2, rows, {.color = PNG_COLOR_TYPE_GRAY_ALPHA}), "has an alpha channel");
  ExpectRefused(Png(2, 2, rows, {.color = PNG_COLOR_TYPE_RGB_ALPHA}), "has an alpha channel");
  ExpectRefused(Png(2, 2, rows, {.color = PNG_COLOR_TYPE_RGB, .transparent = true}),
                "has a transparent colour");
  ExpectRefused(Png(2, 2, rows, {.transparent = true}), "has a transparent colour");
  ExpectRefused("", "empty file");
  ExpectRefused("GIF89a", "not a PNG file");
}

TEST(Png, RefusesSizesBeforeTheyAreAllocated) {
  const std::string grey("\x08\0\0\0\0", 5), rgb("\x08\2\0\0\0", 5);
  ExpectRefused(WithHeader(std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8), grey),
                "2147483647 × 2147483647 pixels");
  ExpectRefused(WithHeader(std::string("\x7f\xff\xff\xff\0\0\0\1", 8), rgb), "expected at most");
  ExpectRefused(WithHeader(std::string("\0\0\x20\0\0\0\x20\0", 8), grey), "damaged PNG file");
  ExpectRefused(WithHeader(std::string("\0\0\0\0\0\0\0\1", 8), grey), "damaged PNG file");
}

TEST(Png, PassesOverWhatIsNoPicture) {
  const auto pixels = Noise(6);
  const std::string file = Png(2, 3, pixels);
  const std::string start = file.substr(0, kHeaderEnd), rest = file.substr(kHeaderEnd);
  EXPECT_EQ(Parse(start + Chunk("tEXt", "Title\nno key") + Chunk("iCCP", "nonsense") + rest).pixels,
            pixels);
  EXPECT_EQ(Parse(file + "trailing").pixels, pixels);
  ExpectRefused(start + Chunk("CRIT", "critical") + rest, "damaged PNG file");
}

// By default libpng would write errors to stderr.
TEST(Png, DamageGivesErrorsAndNothingElse) {
  for (const bool interlaced : {false, true}) {
    const std::string file =
        Png(5, 6, Noise(90), {.color = PNG_COLOR_TYPE_RGB, .interlaced = interlaced, .gamma = 0.5});
    testing::internal::CaptureStderr();
    for (size_t size = 0; size < file.size(); ++size) ExpectRefused(file.substr(0, size), "");
    for (size_t at = 0; at < file.size(); ++at) {
      for (const int bit : {1, 0x20, 0x80, 0xff}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ bit);
        ExpectRefused(damaged, "");  // every byte is a signature or under a checksum
      }
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

// The same with correct checksums: damage that only inflate and the filters see.
TEST(Png, DamageBehindChecksumsIsNoHarm) {
  const std::string file = Png(5, 6, Noise(30));
  const size_t data = file.find("IDAT") + 4, size = file.size() - data - 4 - 12;
  for (size_t at = 0; at < size; ++at) {
    for (int bit = 1; bit < 256; bit *= 2) {
      std::string damaged = file.substr(data, size);
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      try {
        Parse(file.substr(0, data - 8) + Chunk("IDAT", damaged) + Chunk("IEND", ""));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
      }
    }
  }
  ExpectRefused(
      file.substr(0, data - 8) + Chunk("IDAT", file.substr(data, size / 2)) + Chunk("IEND", ""),
      "damaged PNG file");
  ExpectRefused(file.substr(0, kHeaderEnd) + Chunk("IEND", ""), "damaged PNG file");
}

TEST(Png, ReportsFilesThatCannotBeRead) {
  const TempDir dir;
  EXPECT_THROW(ReadPng(dir / "none.png"), Error);
  EXPECT_THROW(ReadPng(dir.path().string()), Error);
  EXPECT_THROW(ReadPng("/dev/zero"), Error);
  WriteText(dir / "a.png", Png(1, 2, {7, 9}));
  EXPECT_EQ(ReadPng(dir / "a.png").pixels, (std::vector<uint8_t>{7, 9}));
}

}  // namespace
}  // namespace favor::io
