#include "core/scratch.h"

#include <algorithm>
#include <utility>

#include "core/device.h"
#include "core/runtime.h"

namespace favor {

ScratchPool::Buffer ScratchPool::Take(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto best =
        std::min_element(free_.begin(), free_.end(), [bytes](const Buffer& a, const Buffer& b) {
          const bool a_fits = a.bytes >= bytes, b_fits = b.bytes >= bytes;
          if (a_fits != b_fits) return a_fits;
          return a_fits ? a.bytes < b.bytes : a.bytes > b.bytes;
        });
    if (best != free_.end()) {
      Buffer taken = std::move(*best);
      free_.erase(best);
      free_bytes_ -= taken.bytes;
      if (taken.bytes >= bytes) return taken;
      // Freed here: a larger one takes its place.
    }
  }
  return {AllocateOn(Device{}, bytes), bytes};
}

void ScratchPool::GiveBack(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  free_bytes_ += buffer.bytes;
  free_.push_back(std::move(buffer));
  while (free_bytes_ > kMostFreeBytes) {
    free_bytes_ -= free_.front().bytes;
    free_.pop_front();
  }
}

void ScratchPool::Clear() {
  const std::lock_guard lock(mutex_);
  free_.clear();
  free_bytes_ = 0;
}

int64_t ScratchPool::FreeBytes() const {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

template <class T>
Scratch<T>::Scratch(const Context& context, int64_t count)
    : pool_(internal::Inside(context).scratch),
      buffer_(pool_.Take(count * static_cast<int64_t>(sizeof(T)))) {}

template <class T>
Scratch<T>::~Scratch() {
  pool_.GiveBack(std::move(buffer_));
}

template class Scratch<float>;
template class Scratch<double>;

}  // namespace favor
