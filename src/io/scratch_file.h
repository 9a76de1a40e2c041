// A file without a name, in $TMPDIR or /var/tmp: it can be larger than memory, and vanishes with
// its owner, even if the process is killed.
#ifndef FAVOR_IO_SCRATCH_FILE_H_
#define FAVOR_IO_SCRATCH_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/input_file.h"

namespace favor::io {

class ScratchFile {
 public:
  ScratchFile();  // throws kIo if no file can be made
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void Append(std::span<const std::byte> bytes);
  // Returns what was written, for reading; nothing can be appended after this.
  std::shared_ptr<const InputFile> Finish();

 private:
  void Flush();

  std::string folder_;
  int descriptor_;
  std::vector<std::byte> buffer_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_SCRATCH_FILE_H_
