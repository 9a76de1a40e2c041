// Where and how work runs: device, number of threads, seed, scratch memory. One context may serve
// many calls, even from several threads at a time; results never depend on its number of threads.
#ifndef FAVOR_CONTEXT_H_
#define FAVOR_CONTEXT_H_

#include <cstdint>
#include <memory>

#include "favor/tensor.h"

namespace favor {

namespace internal {
struct Access;
class Runtime;  // thread arena, stream and scratch pool (src/core/runtime.h)
}  // namespace internal

struct ContextOptions {
  int threads = 0;    // 0: all cores that this process may use
  uint64_t seed = 0;  // for every random draw made on behalf of this context
  Device device;      // runs the operations; on a GPU each context has a stream of its own
};

class Context {
 public:
  static constexpr int kMaxThreads = 1024;

  // Throws kUnavailable if the GPU does not exist.
  explicit Context(const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int threads() const;
  uint64_t seed() const;
  Device device() const;

  // Returns when everything that was started on the device is done. On a CPU it returns at once.
  void Wait() const;
  // Frees the scratch memory that is kept for the next calls (at most 256 MiB, and as much on a
  // GPU). Waits for the GPU first.
  void ReleaseScratch() const;

 private:
  friend struct internal::Access;
  std::unique_ptr<internal::Runtime> impl_;
};

}  // namespace favor

#endif  // FAVOR_CONTEXT_H_
