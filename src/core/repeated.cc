#include "core/repeated.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "core/device.h"

namespace favor {

void Repeat(const ConstView& one, const View& all) {
  const int64_t item = ItemBytes(all.type()), bytes = one.shape().Elements() * item,
                total = all.shape().Elements() * item;
  auto* to = static_cast<std::byte*>(all.data());
  CopyBytes(to, all.device(), one.data(), one.device(), bytes);
  // What is there already is copied behind itself.
  for (int64_t done = bytes; done < total; done *= 2)
    CopyBytes(to + done, all.device(), to, all.device(), std::min(done, total - done));
}

Tensor Repeated(const Tensor& one, int64_t times) {
  if (one.empty()) return {};
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int axis = 0; axis < one.shape().rank(); ++axis)
    sizes[static_cast<size_t>(axis)] = one.shape()[axis] * (axis == 0 ? times : 1);
  Tensor all(Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(one.shape().rank()))),
             one.type(), one.device());
  if (one.shape().Elements() > 0) Repeat(one, all);
  return all;
}

}  // namespace favor
