// An npy file written piece by piece: its shape is known before its elements are.
#ifndef FAVOR_IO_NPY_WRITER_H_
#define FAVOR_IO_NPY_WRITER_H_

#include <cstddef>
#include <span>
#include <string>

#include "favor/tensor.h"
#include "io/atomic_file.h"

namespace favor::io {

class NpyWriter {
 public:
  // `type` is f16, f32 or f64.
  NpyWriter(const std::string& path, const Shape& shape, DataType type);

  void Write(std::span<const std::byte> elements) { file_.Write(elements); }  // in C order
  void Commit() { file_.Commit(); }  // without it, `path` is not changed

 private:
  AtomicFile file_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_NPY_WRITER_H_
