// Keeps other processes of favor out while a file is read, changed and replaced.
#ifndef FAVOR_IO_FOLDER_LOCK_H_
#define FAVOR_IO_FOLDER_LOCK_H_

#include <string>

namespace favor::io {

// Holds an advisory lock on the folder of `path` (a lock on the file itself would be lost when it
// is replaced). If another process holds it, waits or throws kIo.
class FolderLock {
 public:
  enum class IfTaken { kWait, kThrow };

  explicit FolderLock(const std::string& path, IfTaken if_taken = IfTaken::kWait);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_FOLDER_LOCK_H_
