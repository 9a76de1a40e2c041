// An npy file written piece by piece: its shape is known before its elements are.
#ifndef FAVOR_IO_NPY_WRITER_H_
#define FAVOR_IO_NPY_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "favor/tensor.h"
#include "io/atomic_file.h"

namespace favor::io {

class NpyWriter {
 public:
  // `type` is f16, f32 or f64.
  NpyWriter(const std::string& path, const Shape& shape, DataType type);

  void Write(std::span<const std::byte> elements);  // in C order
  // Without it, `path` is not changed. Throws kIo unless as many bytes were written as the shape
  // has.
  void Commit();

 private:
  std::string path_;
  AtomicFile file_;
  int64_t left_;  // bytes
};

}  // namespace favor::io

#endif  // FAVOR_IO_NPY_WRITER_H_
