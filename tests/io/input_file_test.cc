#include "io/input_file.h"

#include <gtest/gtest.h>

#include "favor/error.h"
#include "tests/temp_dir.h"

namespace favor::io {
namespace {

TEST(InputFile, ReadsUpToTheLimitAndNoMore) {
  const TempDir dir;
  WriteText(dir / "five", "12345");
  EXPECT_EQ(OpenRegularFile(dir / "five").ReadRest(5), "12345");
  try {
    OpenRegularFile(dir / "five").ReadRest(4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_TRUE(std::string(error.what()).ends_with("five: longer than 4 bytes")) << error.what();
  }
  // Pieces of 1 MiB: what is read in the last one belongs to the rest.
  const std::string large = std::string((1 << 20) + 1, 'x') + "y";
  WriteText(dir / "large", large);
  EXPECT_EQ(OpenRegularFile(dir / "large").ReadRest(), large);
  EXPECT_EQ(OpenRegularFile(dir / "large").ReadRest(large.size()), large);
}

}  // namespace
}  // namespace favor::io
