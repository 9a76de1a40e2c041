#include "core/device_work.h"

#include <utility>

#include "core/recorded_scratch.h"
#include "core/runtime.h"

namespace favor {

void* UseStream(const Context& context) {
  UseDevice(context.device());
  return internal::Inside(context).stream.get();
}

void* internal::TakeDeviceScratch(const Context& context, int64_t bytes) {
  const Runtime& runtime = Inside(context);
  if (runtime.recorded_scratch != nullptr) return runtime.recorded_scratch->Take(bytes);
  return TakeFrom(runtime.scratch_of_device, bytes, runtime.stream);
}

void internal::GiveBackDeviceScratch(const Context& context, void* memory) noexcept {
  const Runtime& runtime = Inside(context);
  if (runtime.recorded_scratch != nullptr && runtime.recorded_scratch->GiveBack(memory)) return;
  GiveBack(memory, runtime.stream);
}

WorkMemory::WorkMemory(const Context& context, int64_t bytes) : context_(context) {
  if (context.device().type == DeviceType::kCpu) {
    on_cpu_ = AllocateOn(Device{}, bytes);
  } else {
    on_gpu_ = static_cast<std::byte*>(internal::TakeDeviceScratch(context, bytes));
  }
}

WorkMemory::~WorkMemory() {
  if (on_gpu_ != nullptr) internal::GiveBackDeviceScratch(context_, on_gpu_);
}

Tensor SendTensor(Tensor host, const Context& context) {
  if (context.device().type == DeviceType::kCpu || host.empty()) return host;
  Tensor there(host.shape(), host.type(), context.device());
  SendTo(there.view().data(), std::as_const(host).view().data(), host.Bytes(), context.device(),
         internal::Inside(context).stream);
  return there;
}

}  // namespace favor
