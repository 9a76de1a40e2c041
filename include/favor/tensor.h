// Arrays: shape, element type and device; views that borrow memory and tensors that own it.
#ifndef FAVOR_TENSOR_H_
#define FAVOR_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace favor {

// Kernels compute in f32, the reference in f64; f16 and bf16 are for storage only.
enum class DataType : uint8_t { kF32, kF64, kF16, kBF16 };

int64_t ItemBytes(DataType type);
std::string_view Name(DataType type);  // "f32", "f64", "f16", "bf16"

enum class DeviceType : uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;  // which GPU

  friend bool operator==(const Device&, const Device&) = default;
};

std::string Name(const Device& device);  // "cpu", "cuda:0"

// Up to four sizes, each at least 0; their product is known to fit in 62 bits.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t Elements() const { return elements_; }
  std::string ToString() const;  // "[8, 1024, 64]"
  // The same with another last size: [8, 1024, 64] → [8, 1024, 256].
  Shape WithLast(int64_t size) const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
  int64_t elements_ = 1;
};

using Strides = std::array<int64_t, Shape::kMaxRank>;  // in elements; entries past the rank are 0

Strides RowMajorStrides(const Shape& shape);

namespace internal {
// The DataType that a C++ type stores.
template <class T>
constexpr DataType TypeOf() {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "typed access exists for float and double; f16 and bf16 are storage: convert first");
  return std::is_same_v<T, float> ? DataType::kF32 : DataType::kF64;
}
[[noreturn]] void ThrowWrongType(DataType have, DataType want);

struct FreeMemory {
  void (*free)(std::byte*, size_t bytes) = nullptr;  // frees memory of the device that it is on
  size_t bytes = 0;                                  // what was allocated; a GPU does not ask
  void operator()(std::byte* memory) const { free(memory, bytes); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;
}  // namespace internal

// Borrowed memory with shape and strides. ConstView reads, View writes; a View converts to a
// ConstView.
template <bool kMutable>
class BasicView {
 public:
  using Pointer = std::conditional_t<kMutable, void*, const void*>;
  template <class T>
  using Element = std::conditional_t<kMutable, T, const T>;

  BasicView() = default;
  // Row-major memory on the CPU.
  template <class T>
  BasicView(T* data, const Shape& shape)
      : BasicView(data, internal::TypeOf<std::remove_const_t<T>>(), shape, RowMajorStrides(shape),
                  Device{}) {}
  BasicView(Pointer data, DataType type, const Shape& shape, const Strides& strides, Device device)
      : data_(data), type_(type), shape_(shape), strides_(strides), device_(device) {}
  template <bool kOther>
  requires(!kMutable && kOther)
      BasicView(const BasicView<kOther>& other)  // NOLINT: reading is implicit
      : BasicView(other.data(), other.type(), other.shape(), other.strides(), other.device()) {}

  bool empty() const { return data_ == nullptr; }  // no array was given
  Pointer data() const { return data_; }
  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  Device device() const { return device_; }
  int rank() const { return shape_.rank(); }
  int64_t size(int axis) const { return shape_[axis]; }
  int64_t stride(int axis) const { return strides_[static_cast<size_t>(axis)]; }
  bool IsContiguous() const { return strides_ == RowMajorStrides(shape_); }

  // The memory as T; throws if the elements are of another type.
  template <class T>
  Element<T>* Data() const {
    if (type_ != internal::TypeOf<T>()) internal::ThrowWrongType(type_, internal::TypeOf<T>());
    return static_cast<Element<T>*>(data_);
  }

  // Entry `index` of the leading axis: [8, 128, 64] → [128, 64].
  BasicView At(int64_t index) const;
  // `count` entries of `axis`, from `begin`.
  BasicView Range(int axis, int64_t begin, int64_t count) const;
  // [L, d] or [H, L, d] as [1, …, L, d] of rank 4: axes of size 1 are put in front.
  BasicView AsRank4() const;

 private:
  Pointer data_ = nullptr;
  DataType type_ = DataType::kF32;
  Shape shape_;
  Strides strides_{};
  Device device_;
};

using View = BasicView<true>;
using ConstView = BasicView<false>;

extern template class BasicView<true>;
extern template class BasicView<false>;

// Owned, row-major memory aligned to 64 bytes, zero at first. Moves; copies only by Clone. A tensor
// that was never given a shape, or was moved from, is empty: it has no memory, and its view is
// empty too.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tensor&& other) noexcept : Tensor() { Swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken(std::move(other));
    Swap(taken);
    return *this;
  }
  // Throws kOutOfMemory if the machine (or the GPU) cannot hold it.
  explicit Tensor(const Shape& shape, DataType type = DataType::kF32, Device device = {});

  bool empty() const { return memory_ == nullptr; }
  const Shape& shape() const { return shape_; }
  DataType type() const { return type_; }
  Device device() const { return device_; }
  int64_t Bytes() const { return empty() ? 0 : shape_.Elements() * ItemBytes(type_); }

  View view() { return {memory_.get(), type_, shape_, RowMajorStrides(shape_), device_}; }
  ConstView view() const {
    return {memory_.get(), type_, shape_, RowMajorStrides(shape_), device_};
  }
  operator View() { return view(); }             // NOLINT: a tensor is its view
  operator ConstView() const { return view(); }  // NOLINT
  template <class T>
  T* Data() {
    return view().Data<T>();
  }
  template <class T>
  const T* Data() const {
    return view().Data<T>();
  }

  Tensor Clone() const;
  Tensor To(DataType type) const;  // converted, on the same device (CPU only)
  // A copy on `device`, of the same type. Waits for the work that was queued on either device.
  Tensor To(const Device& device) const;

 private:
  void Swap(Tensor& other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(type_, other.type_);
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
  }

  Shape shape_;
  DataType type_ = DataType::kF32;
  Device device_;
  internal::Memory memory_;
};

// Copies with conversion between element types and strides; same shape, both on the CPU.
// f64 or f32 to f16 and bf16 rounds to nearest, ties to even.
void Copy(ConstView from, View to);

// The largest |x|: NaN if an element is NaN, infinity if one is infinite.
double LargestAbsolute(ConstView values);

// True when every element is finite.
bool AllFinite(ConstView values);

}  // namespace favor

#endif  // FAVOR_TENSOR_H_
