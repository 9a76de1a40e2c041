#include "io/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/error_text.h"

namespace favor::io {
namespace {

constexpr size_t kBuffer = 1 << 18;

std::string Folder() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
}

}  // namespace

ScratchFile::ScratchFile() : folder_(Folder()) {
  std::string name = folder_ + "/favor-XXXXXX";
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    Throw(ErrorCode::kIo, Printable(folder_),
          "no temporary file can be made: {} (TMPDIR chooses another folder)",
          std::strerror(errno));
  }
  unlink(name.c_str());
  buffer_.reserve(kBuffer);
}

ScratchFile::~ScratchFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ScratchFile::Append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) Flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void ScratchFile::Flush() {
  std::span<const std::byte> left = buffer_;
  while (!left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      Throw(ErrorCode::kIo, Printable(folder_),
            "a temporary file cannot be written: {} (TMPDIR chooses another folder)",
            std::strerror(errno));
    }
    left = left.subspan(static_cast<size_t>(written));
  }
  buffer_.clear();
}

std::shared_ptr<const InputFile> ScratchFile::Finish() {
  Flush();
  return std::make_shared<const InputFile>(std::exchange(descriptor_, -1),
                                           folder_ + " (a temporary file)");
}

}  // namespace favor::io
