// Which row of a table the first of some rows takes.
#ifndef FAVOR_KERNELS_FIRST_ROW_H_
#define FAVOR_KERNELS_FIRST_ROW_H_

#include <cstdint>

#include "core/host_device.h"

namespace favor::kernels {

// A number that the caller knows, or one in memory of the operation's device, so that work that was
// recorded can run again with another one.
struct FirstRow {
  FAVOR_HOST_DEVICE constexpr FirstRow(int64_t row = 0) : known(row) {}
  FAVOR_HOST_DEVICE constexpr explicit FirstRow(const int32_t* row) : there(row) {}

  int64_t known = 0;
  const int32_t* there = nullptr;  // if given, `known` does not count

  FAVOR_HOST_DEVICE int64_t Get() const { return there != nullptr ? *there : known; }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_FIRST_ROW_H_
