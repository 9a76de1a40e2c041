// An npy file of unsigned bytes, with random access: the whole may be larger than memory.
#ifndef FAVOR_IO_NPY_BYTES_H_
#define FAVOR_IO_NPY_BYTES_H_

#include <cstdint>
#include <span>
#include <string>

#include "io/input_file.h"
#include "io/npy_layout.h"

namespace favor::io {

class NpyBytes {
 public:
  // Throws kInvalidData if elements are not unsigned bytes or the file is damaged.
  explicit NpyBytes(const std::string& path);

  const Shape& shape() const { return layout_.shape; }
  // out[i] = element first + i, in C order.
  void Read(int64_t first, std::span<uint8_t> out) const;

 private:
  InputFile file_;
  NpyLayout layout_;
};

}  // namespace favor::io

#endif  // FAVOR_IO_NPY_BYTES_H_
