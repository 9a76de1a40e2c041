// What kernels on a GPU need of a context: the stream that they are queued on and scratch memory.
// It does not include the headers of threads, which nvcc need not read.
#ifndef FAVOR_CORE_DEVICE_WORK_H_
#define FAVOR_CORE_DEVICE_WORK_H_

#include <cstdint>

#include "favor/context.h"
#include "favor/tensor.h"

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

// Memory on the context's device, contents undefined, for work that is queued during the life of
// this object: on a GPU scratch memory, so that nothing waits.
class WorkMemory {
 public:
  WorkMemory(const Context& context, int64_t bytes);
  ~WorkMemory();
  WorkMemory(const WorkMemory&) = delete;
  WorkMemory& operator=(const WorkMemory&) = delete;

  std::byte* data() const { return on_gpu_ != nullptr ? on_gpu_ : on_cpu_.get(); }

 private:
  const Context& context_;
  internal::Memory on_cpu_;
  std::byte* on_gpu_ = nullptr;
};

// An array in such memory.
class WorkArray {
 public:
  WorkArray(const Context& context, const Shape& shape, DataType type)
      : memory_(context, shape.Elements() * ItemBytes(type)),
        view_(memory_.data(), type, shape, RowMajorStrides(shape), context.device()) {}

  const View& view() const { return view_; }

 private:
  WorkMemory memory_;
  View view_;
};

// A tensor of the CPU for work that is queued in the context: itself, or a copy on its GPU. Nothing
// waits, and `host` is not read again.
Tensor SendTensor(Tensor host, const Context& context);

}  // namespace favor

#endif  // FAVOR_CORE_DEVICE_WORK_H_
