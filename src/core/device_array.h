// Numbers that the host makes for operations to read, such as tokens: on a CPU they are read in
// place, on a GPU from a copy.
#ifndef FAVOR_CORE_DEVICE_ARRAY_H_
#define FAVOR_CORE_DEVICE_ARRAY_H_

#include <cstdint>
#include <span>
#include <type_traits>

#include "core/device.h"
#include "core/runtime.h"
#include "favor/context.h"

namespace favor {

// The memory of one copy, reused for every Send; for one context at a time.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied between devices");

 public:
  // Returns where the context's device can read `host` until the next call. On a CPU that is `host`
  // itself, which must not change before the operations that read it have run.
  const T* Send(std::span<const T> host, const Context& context) {
    if (context.device().type == DeviceType::kCpu) return host.data();
    const auto bytes = static_cast<int64_t>(host.size_bytes());
    if (bytes > bytes_) {
      context.Wait();  // for what reads the old copy
      memory_ = AllocateOn(context.device(), bytes);
      bytes_ = bytes;
    }
    SendTo(memory_.get(), host.data(), bytes, context.device(), internal::Inside(context).stream);
    return reinterpret_cast<const T*>(memory_.get());
  }

 private:
  internal::Memory memory_;
  int64_t bytes_ = 0;
};

}  // namespace favor

#endif  // FAVOR_CORE_DEVICE_ARRAY_H_
