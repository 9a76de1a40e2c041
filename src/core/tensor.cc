#include "favor/tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/device.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/largest_bits.h"

namespace favor {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 62;

void RequireCpu(const Device& device, std::string_view who) {
  if (device.type != DeviceType::kCpu) {
    Throw(ErrorCode::kUnavailable, who, "given an array on {}, expected one on the cpu",
          Name(device));
  }
}

// Calls body(offset of from, offset of to) for each row of the last axis, in order.
template <class Body>
void ForEachRow(const ConstView& from, const ConstView& to, const Body& body) {
  const ConstView f = from.AsRank4(), t = to.AsRank4();
  for (int64_t i = 0; i < f.size(0); ++i) {
    for (int64_t j = 0; j < f.size(1); ++j) {
      for (int64_t k = 0; k < f.size(2); ++k) {
        body(i * f.stride(0) + j * f.stride(1) + k * f.stride(2),
             i * t.stride(0) + j * t.stride(1) + k * t.stride(2));
      }
    }
  }
}

// Calls body(offset of from, offset of to) for each element, last axis fastest.
template <class Body>
void ForEachElement(const ConstView& from, const ConstView& to, const Body& body) {
  const ConstView f = from.AsRank4(), t = to.AsRank4();
  ForEachRow(from, to, [&](int64_t f_row, int64_t t_row) {
    for (int64_t i = 0; i < f.size(3); ++i) body(f_row + i * f.stride(3), t_row + i * t.stride(3));
  });
}

}  // namespace

int64_t ItemBytes(DataType type) {
  switch (type) {
    case DataType::kF32:
      return 4;
    case DataType::kF64:
      return 8;
    case DataType::kF16:
    case DataType::kBF16:
      return 2;
  }
  return 0;
}

std::string_view Name(DataType type) {
  switch (type) {
    case DataType::kF32:
      return "f32";
    case DataType::kF64:
      return "f64";
    case DataType::kF16:
      return "f16";
    case DataType::kBF16:
      return "bf16";
  }
  return "";
}

std::string Name(const Device& device) {
  return device.type == DeviceType::kCpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

Shape::Shape(std::span<const int64_t> sizes) {
  if (sizes.size() > kMaxRank) {
    Throw(ErrorCode::kInvalidData, "shape", "given {} dimensions, expected at most {}",
          sizes.size(), kMaxRank);
  }
  for (const int64_t size : sizes) {
    if (size < 0) {
      Throw(ErrorCode::kInvalidData, "shape", "given size {}, expected 0 or more", size);
    }
    if (size > 0 && elements_ > kMaxElements / size) {
      Throw(ErrorCode::kInvalidData, "shape", "given sizes [{}], more elements than can be counted",
            fmt::join(sizes, ", "));
    }
    elements_ *= size;
    sizes_[static_cast<size_t>(rank_++)] = size;
  }
}

Shape Shape::WithLast(int64_t size) const {
  std::array<int64_t, kMaxRank> sizes = sizes_;
  if (rank_ == 0)
    Throw(ErrorCode::kInvalidData, "shape", "given rank 0, expected at least one axis");
  sizes[static_cast<size_t>(rank_ - 1)] = size;
  return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(rank_)));
}

std::string Shape::ToString() const {
  return fmt::format("[{}]", fmt::join(sizes_.begin(), sizes_.begin() + rank_, ", "));
}

Strides RowMajorStrides(const Shape& shape) {
  Strides strides{};
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = step;
    step *= shape[axis];
  }
  return strides;
}

void internal::ThrowWrongType(DataType have, DataType want) {
  Throw(ErrorCode::kInvalidData, "view", "given elements of type {}, expected {}", Name(have),
        Name(want));
}

namespace {

// Views may have no memory yet, and then their parts have none.
template <class Void>
Void* Behind(Void* data, int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  return data == nullptr ? nullptr : static_cast<Byte*>(data) + bytes;
}

}  // namespace

template <bool kMutable>
BasicView<kMutable> BasicView<kMutable>::At(int64_t index) const {
  if (rank() < 1 || index < 0 || index >= size(0)) {
    Throw(ErrorCode::kInvalidData, "view", "given index {} of shape {}", index, shape_.ToString());
  }
  std::array<int64_t, Shape::kMaxRank> sizes{};
  Strides strides{};
  for (int axis = 1; axis < rank(); ++axis) {
    sizes[static_cast<size_t>(axis - 1)] = size(axis);
    strides[static_cast<size_t>(axis - 1)] = stride(axis);
  }
  return {Behind(data_, index * stride(0) * ItemBytes(type_)), type_,
          Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(rank() - 1))), strides,
          device_};
}

template <bool kMutable>
BasicView<kMutable> BasicView<kMutable>::Range(int axis, int64_t begin, int64_t count) const {
  if (axis < 0 || axis >= rank() || begin < 0 || count < 0 || begin > size(axis) - count) {
    Throw(ErrorCode::kInvalidData, "view", "given range {}+{} of axis {} of shape {}", begin, count,
          axis, shape_.ToString());
  }
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int i = 0; i < rank(); ++i) sizes[static_cast<size_t>(i)] = i == axis ? count : size(i);
  return {Behind(data_, begin * stride(axis) * ItemBytes(type_)), type_,
          Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(rank()))), strides_,
          device_};
}

template <bool kMutable>
BasicView<kMutable> BasicView<kMutable>::AsRank4() const {
  std::array<int64_t, Shape::kMaxRank> sizes{1, 1, 1, 1};
  Strides strides{};
  const int missing = Shape::kMaxRank - rank();
  for (int axis = 0; axis < rank(); ++axis) {
    sizes[static_cast<size_t>(axis + missing)] = size(axis);
    strides[static_cast<size_t>(axis + missing)] = stride(axis);
  }
  // The stride of an axis of size 1 is never used; row-major values keep IsContiguous true.
  for (int axis = missing - 1; axis >= 0; --axis) {
    const auto next = static_cast<size_t>(axis + 1);
    strides[static_cast<size_t>(axis)] = next < sizes.size() ? strides[next] * sizes[next] : 1;
  }
  return {data_, type_, Shape(std::span<const int64_t>(sizes)), strides, device_};
}

template class BasicView<true>;
template class BasicView<false>;

Tensor::Tensor(const Shape& shape, DataType type, Device device)
    : shape_(shape), type_(type), device_(device) {
  if (shape.Elements() > kMaxElements / ItemBytes(type)) {
    Throw(ErrorCode::kOutOfMemory, "tensor", "given shape {}, larger than any memory",
          shape.ToString());
  }
  memory_ = AllocateOn(device, shape.Elements() * ItemBytes(type));
}

Tensor Tensor::Clone() const { return To(device_); }

Tensor Tensor::To(DataType type) const {
  if (empty()) return {};
  Tensor result(shape_, type, device_);
  Copy(view(), result.view());
  return result;
}

Tensor Tensor::To(const Device& device) const {
  if (empty()) return {};
  Tensor result(shape_, type_, device);
  CopyBytes(result.memory_.get(), device, memory_.get(), device_, Bytes());
  return result;
}

void Copy(ConstView from, View to) {
  RequireCpu(from.device(), "copy");
  RequireCpu(to.device(), "copy");
  if (from.shape() != to.shape()) {
    Throw(ErrorCode::kInvalidData, "copy", "given shape {}, expected {}", from.shape().ToString(),
          to.shape().ToString());
  }
  if (from.type() == to.type() && from.IsContiguous() && to.IsContiguous()) {
    CopyBytes(to.data(), {}, from.data(), {}, from.shape().Elements() * ItemBytes(from.type()));
    return;
  }
  const int last = from.rank() - 1;
  if (from.type() == to.type() && last >= 0 && from.stride(last) == 1 && to.stride(last) == 1) {
    const int64_t item = ItemBytes(from.type());
    ForEachRow(from, to, [&](int64_t source, int64_t target) {
      CopyBytes(static_cast<std::byte*>(to.data()) + target * item, {},
                static_cast<const std::byte*>(from.data()) + source * item, {},
                from.size(last) * item);
    });
    return;
  }
  ForEachElement(from, to, [&](int64_t source, int64_t target) {
    StoreElement(to.data(), to.type(), target, LoadElement(from.data(), from.type(), source));
  });
}

namespace {

// Whether the elements fill their memory, in whatever order of axes.
bool HasNoGaps(const ConstView& values) {
  std::array<std::pair<int64_t, int64_t>, Shape::kMaxRank> axes{};  // stride, size
  const auto rank = static_cast<size_t>(values.rank());
  for (size_t i = 0; i < rank; ++i)
    axes[i] = {values.stride(static_cast<int>(i)), values.size(static_cast<int>(i))};
  std::sort(axes.begin(), axes.begin() + values.rank());
  int64_t expected = 1;
  for (size_t i = 0; i < rank; ++i) {
    if (axes[i].second == 1) continue;
    if (axes[i].first != expected) return false;
    expected *= axes[i].second;
  }
  return true;
}

}  // namespace

double LargestAbsolute(ConstView values) {
  RequireCpu(values.device(), "values");
  const int last = values.rank() - 1;
  const auto* floats = static_cast<const float*>(values.data());
  if (values.type() == DataType::kF32 && HasNoGaps(values))
    return std::bit_cast<float>(LargestBits(floats, values.shape().Elements()));
  if (values.type() == DataType::kF32 && last >= 0 && values.stride(last) == 1) {
    int32_t largest = 0;
    ForEachRow(values, values, [&](int64_t row, int64_t) {
      largest = std::max(largest, LargestBits(floats + row, values.size(last)));
    });
    return std::bit_cast<float>(largest);
  }
  double largest = 0;
  ForEachElement(values, values, [&](int64_t offset, int64_t) {
    const double size = std::fabs(LoadElement(values.data(), values.type(), offset));
    if (!(size <= largest)) largest = std::isnan(largest) ? largest : size;
  });
  return largest;
}

bool AllFinite(ConstView values) { return std::isfinite(LargestAbsolute(values)); }

}  // namespace favor
