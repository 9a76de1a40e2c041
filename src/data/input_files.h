// The files that one name of data stands for: a file, several separated by commas, a folder, or
// standard input ("-"), which is kept in a scratch file because data is read more than once.
#ifndef FAVOR_DATA_INPUT_FILES_H_
#define FAVOR_DATA_INPUT_FILES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_stream.h"
#include "io/input_file.h"

namespace favor::data {

// The files' names, those of folders in alphabetical order; hidden files are left out. Throws kIo
// if a file or folder does not exist, and kInvalidData for an empty folder or nested folders.
std::vector<std::string> FileNames(const std::string& source);

class InputFiles {
 public:
  explicit InputFiles(const std::string& source);

  const std::vector<std::string>& names() const { return names_; }
  // Reads a file from the beginning, expanded if it is compressed.
  io::ByteStream Open(size_t index) const;
  // The contents of all files, one after the other, to be read by place.
  std::shared_ptr<const io::InputFile> Plain() const;

 private:
  std::vector<std::string> names_;
  std::shared_ptr<const io::InputFile> standard_input_;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_INPUT_FILES_H_
