// Vectors whose memory begins at a cache line: a SIMD load from it never touches two lines.
#ifndef FAVOR_CORE_ALIGNED_H_
#define FAVOR_CORE_ALIGNED_H_

#include <cstddef>
#include <new>
#include <vector>

namespace favor {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}  // NOLINT: allocators must convert implicitly

  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kAlignment); }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace favor

#endif  // FAVOR_CORE_ALIGNED_H_
