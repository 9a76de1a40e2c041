#include "io/scratch_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "favor/error.h"
#include "tests/temp_dir.h"

namespace favor::io {
namespace {

class ScratchFileIn : public testing::Test {
 protected:
  ScratchFileIn() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", dir_.path().c_str(), 1);
  }
  ~ScratchFileIn() override {
    if (before_.empty()) {
      unsetenv("TMPDIR");
    } else {
      setenv("TMPDIR", before_.c_str(), 1);
    }
  }

  std::string before_;
  TempDir dir_;
};

// Pieces smaller and larger than the buffer, read from any place.
TEST_F(ScratchFileIn, GivesBackWhatWasWritten) {
  std::string all;
  ScratchFile scratch;
  for (size_t size = 1; size < 1000000; size = size * 5 + 3) {
    const std::string piece(size, static_cast<char>('a' + size % 26));
    scratch.Append(std::as_bytes(std::span(piece)));
    all += piece;
  }
  const auto file = scratch.Finish();
  EXPECT_EQ(file->Size(), all.size());
  for (size_t at = 0; at + 1000 < all.size(); at += 33333) {
    std::string read(1000, '\0');
    file->ReadAt(static_cast<int64_t>(at), std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, all.substr(at, 1000));
  }
  std::string beyond(2, '\0');
  EXPECT_THROW(
      file->ReadAt(static_cast<int64_t>(all.size()) - 1, std::as_writable_bytes(std::span(beyond))),
      Error);
}

TEST_F(ScratchFileIn, HasNoName) {
  ScratchFile scratch, other;
  const std::string text = "text";
  scratch.Append(std::as_bytes(std::span(text)));
  EXPECT_EQ(dir_.Entries(), 0);
  EXPECT_EQ(scratch.Finish()->Size(), 4u);
  EXPECT_EQ(other.Finish()->Size(), 0u);
  EXPECT_EQ(dir_.Entries(), 0);
}

TEST_F(ScratchFileIn, ReportsAFolderThatIsNotThere) {
  setenv("TMPDIR", (dir_ / "none").c_str(), 1);
  try {
    ScratchFile scratch;
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_EQ(std::string(error.what()),
              (dir_ / "none") + ": no temporary file can be made: " + std::strerror(ENOENT) +
                  " (TMPDIR chooses another folder)");
  }
}

}  // namespace
}  // namespace favor::io
