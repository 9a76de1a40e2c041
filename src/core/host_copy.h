// Arrays of any device as the host reads them.
#ifndef FAVOR_CORE_HOST_COPY_H_
#define FAVOR_CORE_HOST_COPY_H_

#include "favor/tensor.h"

namespace favor {

// An array on the CPU: itself, or a copy of the memory that it spans on a GPU, made after all work
// that was queued there. The strides are the same.
class HostCopy {
 public:
  explicit HostCopy(const ConstView& array);

  const ConstView& view() const { return view_; }

 private:
  internal::Memory memory_;
  ConstView view_;
};

}  // namespace favor

#endif  // FAVOR_CORE_HOST_COPY_H_
