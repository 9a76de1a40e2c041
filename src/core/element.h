// Access to one element of an array of any storage type, as double.
#ifndef FAVOR_CORE_ELEMENT_H_
#define FAVOR_CORE_ELEMENT_H_

#include <cstdint>

#include "core/half.h"
#include "favor/tensor.h"

namespace favor {

inline double LoadElement(const void* data, DataType type, int64_t index) {
  switch (type) {
    case DataType::kF32:
      return static_cast<const float*>(data)[index];
    case DataType::kF64:
      return static_cast<const double*>(data)[index];
    case DataType::kF16:
      return FromF16(static_cast<const uint16_t*>(data)[index]);
    case DataType::kBF16:
      return FromBF16(static_cast<const uint16_t*>(data)[index]);
  }
  return 0;
}

inline void StoreElement(void* data, DataType type, int64_t index, double value) {
  switch (type) {
    case DataType::kF32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      break;
    case DataType::kF64:
      static_cast<double*>(data)[index] = value;
      break;
    case DataType::kF16:
      static_cast<uint16_t*>(data)[index] = ToF16(value);
      break;
    case DataType::kBF16:
      static_cast<uint16_t*>(data)[index] = ToBF16(value);
      break;
  }
}

// Element [row, column] of a matrix.
inline double ElementAt(const ConstView& rows, int64_t row, int64_t column) {
  return LoadElement(rows.data(), rows.type(), row * rows.stride(0) + column * rows.stride(1));
}
inline void SetElement(const View& rows, int64_t row, int64_t column, double value) {
  StoreElement(rows.data(), rows.type(), row * rows.stride(0) + column * rows.stride(1), value);
}

}  // namespace favor

#endif  // FAVOR_CORE_ELEMENT_H_
