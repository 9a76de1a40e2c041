// What kernels on a GPU need of a context: the stream that they are queued on and scratch memory.
// It does not include the headers of threads, which nvcc need not read.
#ifndef FAVOR_CORE_DEVICE_WORK_H_
#define FAVOR_CORE_DEVICE_WORK_H_

#include <cstdint>

#include "favor/context.h"

namespace favor {

// The stream (cudaStream_t) of a context on a GPU, which becomes the current one of this thread.
void* UseStream(const Context& context);

namespace internal {
void* TakeDeviceScratch(const Context& context, int64_t bytes);
void GiveBackDeviceScratch(const Context& context, void* memory) noexcept;
}  // namespace internal

// `count` elements of T on the context's GPU, aligned to 256 bytes, contents undefined, for work
// that is queued on the context's stream during the life of this object.
template <class T>
class DeviceScratch {
 public:
  DeviceScratch(const Context& context, int64_t count)
      : context_(context),
        data_(static_cast<T*>(
            internal::TakeDeviceScratch(context, count * static_cast<int64_t>(sizeof(T))))) {}
  // The memory is reused by work that is queued later: nothing waits.
  ~DeviceScratch() { internal::GiveBackDeviceScratch(context_, data_); }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  T* data() const { return data_; }

 private:
  const Context& context_;
  T* data_;
};

}  // namespace favor

#endif  // FAVOR_CORE_DEVICE_WORK_H_
