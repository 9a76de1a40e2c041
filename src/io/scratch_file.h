// A file without a name, in $TMPDIR or /var/tmp: more room than memory has, gone with its owner,
// also where the process is killed.
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
  ScratchFile();  // throws kIo where no file can be made
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void Append(std::span<const std::byte> bytes);
  // What was written, to be read; nothing can be appended any more.
  std::shared_ptr<const InputFile> Finish();

 private:
  void Flush();

  std::string folder_;
  int descriptor_;
  std::vector<std::byte> buffer_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_SCRATCH_FILE_H_
