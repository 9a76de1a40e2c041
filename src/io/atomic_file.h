// Files that appear whole or not at all.
#ifndef FAVOR_IO_ATOMIC_FILE_H_
#define FAVOR_IO_ATOMIC_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace favor::io {

// Bytes go to a temporary file next to `path`; Commit syncs it and renames it over `path`. Without
// Commit the destructor removes it. A path that is a device or a pipe is written directly, since
// renaming would replace it; a symbolic link stays as it is and its target is replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);  // throws kIo if the folder cannot be written
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }
  void Commit();

 private:
  [[noreturn]] void Fail(std::string_view what) const;

  std::string path_;       // as given, for errors
  std::string target_;     // with symbolic links resolved
  std::string temporary_;  // empty: writing to a device or pipe
  int descriptor_ = -1;
};

// Whether a file has the name of such a temporary file, left behind by a process that was killed.
bool IsTemporary(const std::string& path);

void WriteFileAtomically(const std::string& path, std::string_view text);

}  // namespace favor::io

#endif  // FAVOR_IO_ATOMIC_FILE_H_
