#include "favor/context.h"

#include <oneapi/tbb/info.h>

#include "core/context_impl.h"
#include "core/device.h"
#include "core/error_text.h"
#include "core/simd.h"

namespace favor {
namespace {

int CheckedThreads(int threads) {
  if (threads < 0 || threads > Context::kMaxThreads) {
    Throw(ErrorCode::kInvalidOption, "threads", "given {}, expected 1 to {} (or 0 for all cores)",
          threads, Context::kMaxThreads);
  }
  return threads == 0 ? tbb::info::default_concurrency() : threads;
}

}  // namespace

Context::Impl::Impl(const ContextOptions& options)
    : threads(CheckedThreads(options.threads)), seed(options.seed), arena(threads) {
  UseSimdOfEnvironment();
  if (threads > tbb::info::default_concurrency()) {
    more_workers.emplace(tbb::global_control::max_allowed_parallelism, Context::kMaxThreads);
  }
}

Context::Context(const ContextOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Context::~Context() = default;

int Context::threads() const { return impl_->threads; }
uint64_t Context::seed() const { return impl_->seed; }

template <class T>
Scratch<T>::Scratch(const Context& context, int64_t count) : pool_(context.impl()) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  {
    const std::lock_guard lock(pool_.mutex);
    // The smallest that is large enough: small requests leave large buffers to large ones.
    Context::Impl::Buffer* best = nullptr;
    for (auto& buffer : pool_.free_buffers) {
      if (buffer.bytes >= bytes && (best == nullptr || buffer.bytes < best->bytes)) best = &buffer;
    }
    if (best != nullptr) {
      std::swap(*best, pool_.free_buffers.back());
      buffer_ = std::move(pool_.free_buffers.back());
      pool_.free_buffers.pop_back();
      return;
    }
  }
  buffer_ = {AllocateOn(Device{}, static_cast<int64_t>(bytes)), bytes};
}

template <class T>
Scratch<T>::~Scratch() {
  const std::lock_guard lock(pool_.mutex);
  pool_.free_buffers.push_back(std::move(buffer_));
}

template class Scratch<float>;
template class Scratch<double>;

}  // namespace favor
