#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error_text.h"

namespace favor::io {

FolderLock::FolderLock(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  descriptor_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    close(descriptor_);
    descriptor_ = -1;
  }
  if (descriptor_ < 0)
    Throw(ErrorCode::kIo, Printable(path), "its folder cannot be locked: {}", std::strerror(errno));
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace favor::io
