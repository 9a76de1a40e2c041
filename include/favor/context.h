// Where and how work runs: number of threads, seed, scratch memory. One context may serve many
// calls, also of several threads at a time; results never depend on its number of threads.
#ifndef FAVOR_CONTEXT_H_
#define FAVOR_CONTEXT_H_

#include <cstdint>
#include <memory>

namespace favor {

struct ContextOptions {
  int threads = 0;    // 0: all cores that this process may use
  uint64_t seed = 0;  // of every random draw made on behalf of this context
};

class Context {
 public:
  static constexpr int kMaxThreads = 1024;

  explicit Context(const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int threads() const;
  uint64_t seed() const;

  class Impl;  // thread arena and scratch pool (src/core/context_impl.h)
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace favor

#endif  // FAVOR_CONTEXT_H_
