// The memory of activations, counted in advance: the same walk first counts, then hands out pieces
// of one allocation.
//
//   layers::Arena arena(type, device);
//   model.Reserve(arena);      // counts
//   arena.Provide();
//   model.Reserve(arena);      // gets memory
#ifndef FAVOR_LAYERS_ARENA_H_
#define FAVOR_LAYERS_ARENA_H_

#include <algorithm>
#include <cstdint>

#include "favor/error.h"
#include "favor/tensor.h"

namespace favor::layers {

class Arena {
 public:
  explicit Arena(DataType type, Device device = {}) : type_(type), device_(device) {}

  // Row-major, aligned to 64 bytes; views without memory while counting.
  View Take(const Shape& shape) { return Take(shape, type_); }
  // Numbers that 16 bits are too few for, such as means and decays.
  View TakeExact(const Shape& shape) {
    return Take(shape, ItemBytes(type_) < 4 ? DataType::kF32 : type_);
  }

  // What is taken after Rewind(mark) reuses the memory of what was taken since Mark().
  int64_t Mark() const { return used_; }
  void Rewind(int64_t mark) { used_ = mark; }

  int64_t Bytes() const { return most_; }  // counted so far

  void Count() {
    counting_ = true;
    used_ = most_ = 0;
  }
  // Allocates what was counted, unless the memory at hand is large enough.
  void Provide() {
    if (memory_.empty() || memory_.Bytes() < most_) {
      memory_ = Tensor();  // frees the old memory first
      memory_ = Tensor({most_ / ItemBytes(type_)}, type_, device_);
    }
    counting_ = false;
    used_ = 0;
  }

 private:
  static constexpr int64_t kAlignment = 64, kMost = int64_t{1} << 59;  // bytes

  View Take(const Shape& shape, DataType type) {
    void* at = counting_ ? nullptr : static_cast<char*>(memory_.view().data()) + used_;
    const int64_t elements = shape.Elements(), item = ItemBytes(type);
    const bool fits = elements <= kMost / item;
    if (fits) used_ += (elements * item + kAlignment - 1) / kAlignment * kAlignment;
    if (!fits || used_ > kMost)
      throw Error(ErrorCode::kOutOfMemory, "memory",
                  "the activations of this model and batch "
                  "are larger than any machine");
    most_ = std::max(most_, used_);
    return {at, type, shape, RowMajorStrides(shape), device_};
  }

  DataType type_;
  Device device_;
  bool counting_ = true;
  int64_t used_ = 0, most_ = 0;  // bytes
  Tensor memory_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_ARENA_H_
