// NumPy's .npy files: little-endian f16, f32 and f64 arrays in C order, format versions 1 to 3.
#ifndef FAVOR_NPY_H_
#define FAVOR_NPY_H_

#include <cstddef>
#include <span>
#include <string>

#include "favor/tensor.h"

namespace favor {

// Reads a whole array. Anything other than the above is refused with kInvalidData, naming what was
// found: not npy, truncated or with trailing bytes, Fortran order, big endian, integers, objects,
// rank over 4.
Tensor ReadNpy(const std::string& path);

// The same from memory; `name` stands for the path in errors.
Tensor ParseNpy(std::span<const std::byte> bytes, const std::string& name);

// A mask as f32: booleans and unsigned bytes are accepted besides floats.
Tensor ReadNpyMask(const std::string& path);

// Writes through a temporary file that is synced and renamed: `path` is either whole or untouched.
// NumPy has no bf16: such arrays are written as f32.
void WriteNpy(const std::string& path, ConstView array);

}  // namespace favor

#endif  // FAVOR_NPY_H_
