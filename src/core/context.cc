#include "favor/context.h"

#include <oneapi/tbb/info.h>

#include "core/error_text.h"
#include "core/runtime.h"
#include "core/simd.h"
#include "core/workers.h"

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

internal::Workers::Workers(int threads) : arena(threads) {
  if (threads > tbb::info::default_concurrency()) {
    more_workers.emplace(tbb::global_control::max_allowed_parallelism, Context::kMaxThreads);
  }
}

internal::Runtime::Runtime(const ContextOptions& options)
    : threads(CheckedThreads(options.threads)),
      seed(options.seed),
      device(options.device),
      stream(MakeStream(options.device)),
      scratch_of_device(MakePool(options.device, ScratchPool::kMostFreeBytes)),
      workers(std::make_unique<Workers>(threads)) {
  UseSimdOfEnvironment();
}
internal::Runtime::~Runtime() = default;

Context::Context(const ContextOptions& options)
    : impl_(std::make_unique<internal::Runtime>(options)) {}
Context::~Context() = default;

int Context::threads() const { return impl_->threads; }
uint64_t Context::seed() const { return impl_->seed; }
Device Context::device() const { return impl_->device; }
void Context::Wait() const { WaitFor(impl_->stream); }
void Context::ReleaseScratch() const {
  impl_->scratch.Clear();
  Wait();  // what is still in use on the device cannot be freed
  ReleaseFree(impl_->scratch_of_device);
}

}  // namespace favor
