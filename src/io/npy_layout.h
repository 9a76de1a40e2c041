// What comes before the elements of an npy file.
#ifndef FAVOR_IO_NPY_LAYOUT_H_
#define FAVOR_IO_NPY_LAYOUT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "favor/tensor.h"

namespace favor::io {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
// Bytes of signature, version, length and the longest accepted header: enough to know the layout.
constexpr size_t kNpyStartBytes = kNpyMagic.size() + 2 + 4 + 65536;

enum class NpyElements {
  kFloats,        // f16, f32, f64
  kFloatsOrMask,  // floats, booleans or unsigned bytes
  kBytes,         // unsigned bytes only
};

struct NpyLayout {
  Shape shape;
  std::optional<DataType> type;  // none: one byte per element
  size_t data_begin;             // offset of the elements in the file
};

// Reads signature and header from the first bytes of a file of `total` bytes and checks that shape
// and size of the file agree, before anything is allocated. Throws kInvalidData.
NpyLayout ParseNpyLayout(std::string_view start, size_t total, const std::string& name,
                         NpyElements elements);

}  // namespace favor::io

#endif  // FAVOR_IO_NPY_LAYOUT_H_
