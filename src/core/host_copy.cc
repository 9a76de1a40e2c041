#include "core/host_copy.h"

#include "core/device.h"

namespace favor {

HostCopy::HostCopy(const ConstView& array) : view_(array) {
  if (array.empty() || array.device().type == DeviceType::kCpu) return;
  int64_t before = 0, after = 0;  // elements from the first one on, in both directions
  for (int axis = 0; axis < array.rank(); ++axis) {
    const int64_t reach = (array.size(axis) - 1) * array.stride(axis);
    (reach < 0 ? before : after) += reach;
  }
  const int64_t item = ItemBytes(array.type()),
                bytes = array.shape().Elements() == 0 ? 0 : (after - before + 1) * item;
  memory_ = AllocateOn(Device{}, bytes);
  CopyBytes(memory_.get(), Device{}, static_cast<const std::byte*>(array.data()) + before * item,
            array.device(), bytes);
  view_ = ConstView(memory_.get() - before * item, array.type(), array.shape(), array.strides(),
                    Device{});
}

}  // namespace favor
