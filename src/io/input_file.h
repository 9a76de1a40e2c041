// Reading files from outside.
#ifndef FAVOR_IO_INPUT_FILE_H_
#define FAVOR_IO_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace favor::io {

// An open file; every failure is a kIo error that names the path.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  InputFile(int descriptor, const std::string& path);  // takes over an open file
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::optional<size_t> Size() const { return size_; }  // none for pipes and devices
  size_t Read(std::span<std::byte> out);  // fills `out` or stops at the end of the file
  // Throws kInvalidData if there is more than `most`, or more than this machine could hold.
  std::string ReadRest(size_t most = SIZE_MAX);
  // Reads bytes from `offset` on; throws kInvalidData if the file ends too early. Safe from several
  // threads.
  void ReadAt(int64_t offset, std::span<std::byte> out) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_;
  std::optional<size_t> size_;
};

// Throws kIo for a pipe, device or folder: opening a pipe would wait for its other end.
void CheckRegularFile(const std::string& path);

// Opens a file that is not a pipe or device: those may never end, and cannot be read twice.
InputFile OpenRegularFile(const std::string& path);

// The whole contents of such a file.
std::string ReadRegularFile(const std::string& path);

constexpr std::string_view kStandardInput = "-";  // as a path

// All that comes from standard input.
std::string ReadStandardInput();

}  // namespace favor::io

#endif  // FAVOR_IO_INPUT_FILE_H_
