#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error_text.h"

namespace favor::io {

FolderLock::FolderLock(const std::string& path, IfTaken if_taken) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  descriptor_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int operation = LOCK_EX | (if_taken == IfTaken::kThrow ? LOCK_NB : 0);
  while (descriptor_ >= 0 && flock(descriptor_, operation) != 0) {
    if (errno == EINTR) continue;
    const int reason = errno;
    close(descriptor_);
    descriptor_ = -1;
    if (reason == EWOULDBLOCK)
      Throw(ErrorCode::kIo, Printable(folder), "another favor process is working in this folder");
    errno = reason;
  }
  if (descriptor_ < 0)
    Throw(ErrorCode::kIo, Printable(path), "its folder cannot be locked: {}", std::strerror(errno));
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace favor::io
