#include "core/device_work.h"

#include "core/runtime.h"

namespace favor {

void* UseStream(const Context& context) {
  UseDevice(context.device());
  return internal::Inside(context).stream.get();
}

void* internal::TakeDeviceScratch(const Context& context, int64_t bytes) {
  const Runtime& runtime = Inside(context);
  return TakeFrom(runtime.scratch_of_device, bytes, runtime.stream);
}

void internal::GiveBackDeviceScratch(const Context& context, void* memory) noexcept {
  GiveBack(memory, Inside(context).stream);
}

}  // namespace favor
