#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "favor/error.h"
#include "tests/temp_dir.h"

namespace favor::io {
namespace {

TEST(AtomicFile, AppearsOnlyOnCommit) {
  const TempDir dir;
  {
    AtomicFile file(dir / "a");
    file.Write("half");
    EXPECT_FALSE(std::filesystem::exists(dir / "a"));
  }
  EXPECT_EQ(dir.Entries(), 0);  // not committed: nothing stays
  WriteFileAtomically(dir / "a", "whole");
  EXPECT_EQ(ReadText(dir / "a"), "whole");
  EXPECT_EQ(dir.Entries(), 1);
}

TEST(AtomicFile, LeavesTheOldFileUntilCommit) {
  const TempDir dir;
  WriteText(dir / "a", "old");
  chmod((dir / "a").c_str(), 0640);
  {
    AtomicFile file(dir / "a");
    file.Write("new");
    EXPECT_EQ(ReadText(dir / "a"), "old");
    file.Commit();
  }
  EXPECT_EQ(ReadText(dir / "a"), "new");
  struct stat status {};
  stat((dir / "a").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, ReplacesTheTargetOfALinkAndKeepsTheLink) {
  const TempDir dir;
  WriteText(dir / "target", "old");
  std::filesystem::create_symlink("target", dir / "link");
  WriteFileAtomically(dir / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(ReadText(dir / "target"), "new");
}

TEST(AtomicFile, WritesToDevicesInPlace) {
  WriteFileAtomically("/dev/null", "gone");
  struct stat status {};
  ASSERT_EQ(stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST(AtomicFile, RefusesFoldersAndMissingFolders) {
  const TempDir dir;
  for (const std::string& path :
       {dir.path().string(), dir / "missing/a", std::string("/proc/favor")}) {
    try {
      AtomicFile file(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
  EXPECT_EQ(dir.Entries(), 0);
}

TEST(AtomicFile, ReportsAFullDisk) { EXPECT_THROW(WriteFileAtomically("/dev/full", "x"), Error); }

}  // namespace
}  // namespace favor::io
