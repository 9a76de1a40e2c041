#include "core/device_array.h"

#include <gtest/gtest.h>

#include <vector>

namespace favor {
namespace {

TEST(DeviceArray, IsTheHostsOwnOnACpu) {
  const Context context({.threads = 1});
  const std::vector<int32_t> tokens = {3, 1, 4};
  DeviceArray<int32_t> array;
  EXPECT_EQ(array.Send(tokens, context), tokens.data());
}

// Longer and shorter arrays one after the other: each is there when queued work reads it.
TEST(CudaDeviceArray, IsACopyOnAGpu) {
  if (ListGpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Device device{.type = DeviceType::kCuda};
  const Context context({.device = device});
  DeviceArray<int32_t> array;
  for (const size_t count : {size_t{3}, size_t{100000}, size_t{5}}) {
    std::vector<int32_t> tokens(count), back(count);
    for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(7 * i + count);
    const std::vector<int32_t> sent = tokens;
    const int32_t* on_device = array.Send(tokens, context);
    EXPECT_NE(on_device, tokens.data());
    std::fill(tokens.begin(), tokens.end(), -1);  // the host's copy may change
    ReadBack(back.data(), on_device, static_cast<int64_t>(count * sizeof(int32_t)), device,
             internal::Inside(context).stream);
    EXPECT_EQ(back, sent);
  }
}

}  // namespace
}  // namespace favor
