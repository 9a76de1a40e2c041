// What stands behind a Context: the arena of worker threads and a pool of scratch buffers.
#ifndef FAVOR_CORE_CONTEXT_IMPL_H_
#define FAVOR_CORE_CONTEXT_IMPL_H_

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "favor/context.h"
#include "favor/tensor.h"

namespace favor {

class Context::Impl {
 public:
  explicit Impl(const ContextOptions& options);

  int threads;
  uint64_t seed;
  tbb::task_arena arena;
  // TBB starts no more workers than there are cores unless told so. The number is the same for all
  // contexts, because TBB takes the least of those alive.
  std::optional<tbb::global_control> more_workers;

  // Buffers that tasks borrow and give back, so that a long run allocates once per concurrent task.
  std::mutex mutex;
  struct Buffer {
    internal::Memory memory;
    size_t bytes = 0;
  };
  std::vector<Buffer> free_buffers;
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
  Context::Impl& pool_;
  Context::Impl::Buffer buffer_;
};

extern template class Scratch<float>;
extern template class Scratch<double>;

}  // namespace favor

#endif  // FAVOR_CORE_CONTEXT_IMPL_H_
