// Arrays several times, one behind the other.
#ifndef FAVOR_CORE_REPEATED_H_
#define FAVOR_CORE_REPEATED_H_

#include <cstdint>

#include "favor/tensor.h"

namespace favor {

// Fills `all`, [times · n, ..], with copies of `one`, [n, ..]: both contiguous, of one type and on
// one device, after all work that was queued there.
void Repeat(const ConstView& one, const View& all);

Tensor Repeated(const Tensor& one, int64_t times);

}  // namespace favor

#endif  // FAVOR_CORE_REPEATED_H_
