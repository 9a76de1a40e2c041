// Keeps other processes of favor out while a file is read, changed and replaced.
#ifndef FAVOR_IO_FOLDER_LOCK_H_
#define FAVOR_IO_FOLDER_LOCK_H_

#include <string>

namespace favor::io {

// Waits for, then holds, an advisory lock on the folder of `path` (a lock on the file itself would
// be lost when it is replaced).
class FolderLock {
 public:
  explicit FolderLock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_FOLDER_LOCK_H_
