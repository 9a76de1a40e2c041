#include "io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/device.h"
#include "core/error_text.h"

namespace favor::io {

InputFile::InputFile(const std::string& path)
    : InputFile(open(path.c_str(), O_RDONLY | O_CLOEXEC), path) {}

InputFile::InputFile(int descriptor, const std::string& path)
    : path_(path), descriptor_(descriptor) {
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    Throw(ErrorCode::kIo, Printable(path_), "cannot be read: {}", std::strerror(errno));
  }
  if (S_ISREG(status.st_mode)) size_ = static_cast<size_t>(status.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

size_t InputFile::Read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = read(descriptor_, out.data() + done, out.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      Throw(ErrorCode::kIo, Printable(path_), "cannot be read: {}", std::strerror(errno));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void InputFile::ReadAt(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = pread(descriptor_, out.data() + done, out.size() - done,
                                offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      Throw(ErrorCode::kIo, Printable(path_), "cannot be read: {}", std::strerror(errno));
    if (count == 0)
      Throw(ErrorCode::kInvalidData, Printable(path_), "became shorter while it was read");
    done += static_cast<size_t>(count);
  }
}

std::string InputFile::ReadRest(size_t most) {
  constexpr size_t kStep = 1 << 20;
  most = std::min(most, static_cast<size_t>(PhysicalMemoryBytes()) / 2);
  if (size_.value_or(0) > most)
    Throw(ErrorCode::kInvalidData, Printable(path_), "longer than {} bytes", most);
  std::string rest;
  for (;;) {
    const size_t before = rest.size();
    rest.resize(before + kStep);
    const size_t count = Read(std::as_writable_bytes(std::span(rest)).subspan(before));
    rest.resize(before + count);
    if (rest.size() > most)
      Throw(ErrorCode::kInvalidData, Printable(path_), "longer than {} bytes", most);
    if (count < kStep) return rest;
  }
}

void CheckRegularFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    Throw(ErrorCode::kIo, Printable(path), "given a device, pipe or folder, expected a file");
}

InputFile OpenRegularFile(const std::string& path) {
  CheckRegularFile(path);
  return InputFile(path);
}

std::string ReadRegularFile(const std::string& path) { return OpenRegularFile(path).ReadRest(); }

std::string ReadStandardInput() {
  // A duplicate: if standard input itself were closed, the next file opened would take its number.
  return InputFile(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0), "standard input").ReadRest();
}

}  // namespace favor::io
