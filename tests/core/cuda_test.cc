// Contexts and memory of a GPU. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <vector>

#include "core/device_work.h"
#include "core/runtime.h"
#include "core/tally.h"
#include "favor/error.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};

class CudaContext : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  }

  static std::vector<float> Read(const Context& context, const float* from, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count), -1.0f);
    ReadBack(values.data(), from, count * 4, kGpu, internal::Inside(context).stream);
    return values;
  }
};

TEST_F(CudaContext, HasADeviceAndAStreamOfItsOwn) {
  const Context one({.device = kGpu}), other({.device = kGpu});
  EXPECT_EQ(one.device(), kGpu);
  EXPECT_NE(UseStream(one), nullptr);
  EXPECT_NE(UseStream(one), UseStream(other));
  one.Wait();
}

TEST_F(CudaContext, TalliesOnTheDevice) {
  const Context context({.device = kGpu});
  Tally tally(context, 3);
  const TallyEntry entry{.unusable = 2, .loss = 0.5};
  CopyBytes(tally.At(1), kGpu, &entry, {}, sizeof entry);
  EXPECT_EQ(tally.Read()[1].unusable, 2);
  EXPECT_EQ(tally.Read()[1].loss, 0.5);
  EXPECT_EQ(tally.Read()[2].unusable, 0);
  tally.Clear();
  EXPECT_EQ(tally.Read()[1].loss, 0);
}

TEST_F(CudaContext, CopiesTensorsBackAndForth) {
  Tensor host({3, 1000});
  for (int64_t i = 0; i < 3000; ++i) host.Data<float>()[i] = static_cast<float>(i);
  const Tensor there = host.To(kGpu), clone = there.Clone(), back = clone.To(Device{});
  EXPECT_EQ(clone.device(), kGpu);
  for (int64_t i = 0; i < 3000; ++i) ASSERT_EQ(back.Data<float>()[i], static_cast<float>(i));
}

// A copy sees the results of work that was queued before it, without a call of Wait.
TEST_F(CudaContext, CopiesAfterQueuedWork) {
  const Context context({.device = kGpu});
  constexpr int64_t kCount = int64_t{1} << 26;
  Tensor ones({kCount});
  for (int64_t i = 0; i < kCount; ++i) ones.Data<float>()[i] = 1;
  Tensor there = ones.To(kGpu);
  for (int i = 0; i < 20; ++i)
    ZeroBytes(there.view().data(), there.Bytes(), kGpu, internal::Inside(context).stream);
  const Tensor back = there.To(Device{});
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(back.Data<float>()[i], 0.0f) << i;
}

TEST_F(CudaContext, LendsScratchInTheOrderOfItsStream) {
  const Context context({.device = kGpu});
  constexpr int64_t kCount = 5000;
  const internal::Runtime& runtime = internal::Inside(context);
  {
    const DeviceScratch<float> one(context, kCount), two(context, kCount);
    EXPECT_NE(one.data(), two.data());
    ZeroBytes(one.data(), kCount * 4, kGpu, runtime.stream);
    EXPECT_EQ(Read(context, one.data(), kCount), std::vector<float>(kCount, 0.0f));
  }
  // Memory that was given back is reused without waiting for the GPU: this takes 1 TiB in all.
  for (int turn = 0; turn < 16384; ++turn) {
    const DeviceScratch<float> scratch(context, int64_t{1} << 24);
    ASSERT_NE(scratch.data(), nullptr);
  }
  context.ReleaseScratch();
  const DeviceScratch<float> again(context, kCount);
  ZeroBytes(again.data(), kCount * 4, kGpu, runtime.stream);
  EXPECT_EQ(Read(context, again.data(), 1), std::vector<float>{0.0f});
}

TEST_F(CudaContext, RefusesMoreScratchThanThereIs) {
  const Context context({.device = kGpu});
  try {
    const DeviceScratch<float> scratch(context, int64_t{1} << 50);
    ADD_FAILURE() << "4 PiB of scratch";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
  }
  const DeviceScratch<float> scratch(context, 1000);  // the context still works
  EXPECT_NE(scratch.data(), nullptr);
}

}  // namespace
}  // namespace favor
