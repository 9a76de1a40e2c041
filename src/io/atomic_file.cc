#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "core/error_text.h"

namespace favor::io {
namespace {

constexpr std::string_view kTemporaryPrefix = ".favor-";
constexpr size_t kTemporaryDigits = 6;

// A random name, probably unused.
std::string TemporaryName() {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string name(kTemporaryPrefix);
  for (size_t i = 0; i < kTemporaryDigits; ++i) name += kDigits[random() % kDigits.size()];
  return name;
}

std::string ResolveLinks(const std::string& path) {
  std::error_code ignored;
  const auto resolved = std::filesystem::weakly_canonical(path, ignored);
  return ignored ? path : resolved.string();
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(ResolveLinks(path)) {
  struct stat existing {};
  const bool exists = stat(target_.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) {
    Throw(ErrorCode::kIo, Printable(path), "given a directory, expected a file to write");
  }
  if (exists && !S_ISREG(existing.st_mode)) {
    descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) Fail("cannot be written");
    return;
  }
  if (exists && access(target_.c_str(), W_OK) != 0) Fail("cannot be written");
  // A short name of its own: the target's may already be as long as a name can be.
  constexpr int kTrials = 100;
  for (int trial = 0; descriptor_ < 0; ++trial) {
    temporary_ = (std::filesystem::path(target_).parent_path() / TemporaryName()).string();
    descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || trial == kTrials)) {
      temporary_.clear();
      Fail("cannot be written");
    }
  }
  // A file that exists keeps its mode.
  if (exists && fchmod(descriptor_, existing.st_mode & 07777) != 0) {
    const int reason = errno;
    close(descriptor_);  // the destructor does not run if the constructor throws
    unlink(temporary_.c_str());
    errno = reason;
    Fail("cannot set its mode");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::Fail(std::string_view what) const {
  Throw(ErrorCode::kIo, Printable(path_), "{}: {}", what, std::strerror(errno));
}

void AtomicFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) Fail("writing failed");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::Commit() {
  if (!temporary_.empty()) {
    if (fsync(descriptor_) != 0) Fail("syncing failed");
    if (rename(temporary_.c_str(), target_.c_str()) != 0) Fail("renaming failed");
    temporary_.clear();
    // The rename itself is durable once the folder is synced; some file systems cannot do that,
    // which is not an error.
    const std::string folder = std::filesystem::path(target_).parent_path().string();
    const int directory =
        open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      fsync(directory);
      close(directory);
    }
  }
  const int status = close(descriptor_);
  descriptor_ = -1;
  if (status != 0) Fail("closing failed");
}

bool IsTemporary(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.size() == kTemporaryPrefix.size() + kTemporaryDigits &&
         name.starts_with(kTemporaryPrefix);
}

void WriteFileAtomically(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

}  // namespace favor::io
