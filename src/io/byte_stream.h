// Files read from front to back, plain or compressed by gzip, as the first bytes tell. Other
// compressed files are refused.
#ifndef FAVOR_IO_BYTE_STREAM_H_
#define FAVOR_IO_BYTE_STREAM_H_

#include <memory>
#include <string>
#include <string_view>

namespace favor::io {

class InputFile;

class ByteStream {
 public:
  // Throws kIo if the file cannot be read or is a pipe or device, and kInvalidData if it is
  // compressed by bzip2, xz, zstd or zip.
  explicit ByteStream(const std::string& path);
  // Reads an open file from its beginning; others may read it too. `name` stands for its path.
  ByteStream(std::shared_ptr<const InputFile> file, const std::string& name);
  // Reads bytes in memory, which must outlive the stream; `name` stands for the path in errors.
  ByteStream(std::string_view bytes, const std::string& name);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // The next piece, valid until the next call; empty at the end. Throws kInvalidData if gzip data
  // are damaged or cut off. Several gzip members are read as one.
  std::string_view Next();

  bool compressed() const;
  const std::string& name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_BYTE_STREAM_H_
