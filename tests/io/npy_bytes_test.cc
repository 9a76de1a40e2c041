#include "io/npy_bytes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "favor/error.h"
#include "favor/npy.h"
#include "tests/npy_file.h"
#include "tests/temp_dir.h"

namespace favor::io {
namespace {

TEST(NpyBytes, ReadsAnyPlace) {
  const TempDir dir;
  // Larger than the longest header, so that the bytes read with it are not all.
  std::string data(200000, '\0');
  std::iota(data.begin(), data.end(), '\0');
  WriteText(dir / "a.npy", NpyFile("|u1", "(2, 100, 1000)", data));
  const NpyBytes array(dir / "a.npy");
  EXPECT_EQ(array.shape(), (Shape{2, 100, 1000}));
  std::vector<uint8_t> piece(300);
  for (const int64_t first : {0, 1, 65500, 99999, 199700}) {
    array.Read(first, piece);
    for (size_t i = 0; i < piece.size(); ++i)
      ASSERT_EQ(piece[i], (static_cast<size_t>(first) + i) % 256) << first << " + " << i;
  }
  EXPECT_THROW(array.Read(199701, piece), Error);
}

TEST(NpyBytes, RefusesOtherElementsByName) {
  const TempDir dir;
  const auto refused = [&](const std::string& file, const std::string& says) {
    WriteText(dir / "a.npy", file);
    try {
      NpyBytes array(dir / "a.npy");
      FAIL() << "accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  const std::string data(8, '\1');
  refused(NpyFile("<u2", "(2, 2)", data),
          "a.npy: given integers ('<u2'), expected unsigned bytes ('|u1')");
  refused(NpyFile("|i1", "(8,)", data), "given integers ('|i1'), expected unsigned bytes");
  refused(NpyFile("<f4", "(2,)", data), "given f32, expected unsigned bytes");
  refused(NpyFile("<f8", "(1,)", data), "given f64, expected unsigned bytes");
  refused(NpyFile("|b1", "(8,)", data), "given booleans, expected unsigned bytes");
  refused(NpyFile(">u2", "(4,)", data), "big-endian");
  refused(NpyFile("|u1", "(9,)", data), "shape [9] of bytes needs 9 data bytes, the file has 8");
  refused(NpyFile("|u1", "(7,)", data), "trailing bytes");
  refused(NpyFile("|u1", "(4294967296, 4294967296, 4)", data), "needs more than");
  refused("", "empty file");
}

TEST(NpyBytes, ReportsFilesThatCannotBeRead) {
  const TempDir dir;
  EXPECT_THROW(NpyBytes(dir / "none.npy"), Error);
  EXPECT_THROW(NpyBytes(dir.path().string()), Error);
  EXPECT_THROW(NpyBytes("/dev/zero"), Error);
}

// Masks accept bytes besides floats; arrays of floats do not.
TEST(NpyBytes, AreMasksButNoFloats) {
  const TempDir dir;
  WriteText(dir / "a.npy", NpyFile("|u1", "(3,)", std::string("\0\1\2", 3)));
  EXPECT_EQ(ReadNpyMask(dir / "a.npy").Data<float>()[2], 2);
  EXPECT_THROW(ReadNpy(dir / "a.npy"), Error);
  WriteText(dir / "a.npy", NpyFile("|b1", "(2,)", std::string("\0\1", 2)));
  EXPECT_EQ(ReadNpyMask(dir / "a.npy").Data<float>()[1], 1);
  WriteText(dir / "a.npy", NpyFile("<u2", "(1,)", std::string("\0\1", 2)));
  EXPECT_THROW(ReadNpyMask(dir / "a.npy"), Error);
}

}  // namespace
}  // namespace favor::io
