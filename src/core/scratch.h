// Memory that tasks borrow and give back, so that a long run allocates only once per concurrent
// task.
#ifndef FAVOR_CORE_SCRATCH_H_
#define FAVOR_CORE_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "favor/context.h"
#include "favor/tensor.h"

namespace favor {

// Buffers on the CPU. A request gets the smallest free buffer that is large enough; if all are too
// small, a new one replaces the largest of them, so that there are never more than have been in use
// at once. Free memory is bounded: beyond the bound, the buffers that have been free for longest go
// back to the system.
class ScratchPool {
 public:
  static constexpr int64_t kMostFreeBytes = int64_t{256} << 20;

  struct Buffer {
    internal::Memory memory;
    int64_t bytes = 0;
  };
  Buffer Take(int64_t bytes);
  void GiveBack(Buffer buffer);
  void Clear();

  int64_t FreeBytes() const;

 private:
  mutable std::mutex mutex_;
  std::deque<Buffer> free_;  // the longest free first
  int64_t free_bytes_ = 0;
};

// `count` elements of T, aligned to 64 bytes, contents undefined, for the life of this object.
template <class T>
class Scratch {
 public:
  Scratch(const Context& context, int64_t count);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return reinterpret_cast<T*>(buffer_.memory.get()); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  ScratchPool& pool_;
  ScratchPool::Buffer buffer_;
};

extern template class Scratch<float>;
extern template class Scratch<double>;

}  // namespace favor

#endif  // FAVOR_CORE_SCRATCH_H_
