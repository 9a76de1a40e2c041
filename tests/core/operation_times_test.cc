#include "core/operation_times.h"

#include <gtest/gtest.h>

#include "core/device.h"
#include "core/stopwatch.h"
#include "kernels/copy.h"
#include "kernels/matmul.h"

namespace favor {
namespace {

TEST(OperationTimes, AreSummedByNameAndDetailWhileTheyAreAskedFor) {
  const Context context({.threads = 1});
  Tensor a({64, 64}), b({64, 64}), c({64, 64});
  const auto multiply = [&](int64_t rows) {
    kernels::Matmul({a.view().Range(0, 0, rows), b, c.view().Range(0, 0, rows)}, context);
  };
  multiply(64);
  {
    OperationTimes times(context);
    EXPECT_TRUE(times.Sums().empty());
    multiply(64);
    const std::vector<OperationTime> once = times.Sums();
    ASSERT_EQ(once.size(), 1u);
    EXPECT_EQ(once[0].name, "matmul");
    EXPECT_EQ(once[0].detail, "64 × 64 × 64");
    EXPECT_EQ(once[0].calls, 1);
    EXPECT_GT(once[0].seconds, 0);
    multiply(32);
    multiply(64);
    kernels::Zero({.y = c}, context);
    const std::vector<OperationTime> sums = times.Sums();
    ASSERT_EQ(sums.size(), 3u);
    EXPECT_EQ(sums[0].calls, 2);
    EXPECT_GT(sums[0].seconds, once[0].seconds);
    EXPECT_EQ(sums[1].detail, "32 × 64 × 64");
    EXPECT_EQ(sums[1].calls, 1);
    EXPECT_EQ(sums[2].name, "zero");
    EXPECT_EQ(sums[2].detail, "");
  }
  multiply(64);  // nobody asks
  OperationTimes again(context);
  EXPECT_TRUE(again.Sums().empty());
}

// What an operation calls counts once, as part of it.
TEST(OperationTimes, CountNestedOperationsOnce) {
  const Context context({.threads = 1});
  OperationTimes times(context);
  {
    OperationTimer outer(context);
    EXPECT_TRUE(outer.IsAsked());
    outer.Start("outer", "");
    const OperationTimer inner(context);
    EXPECT_FALSE(inner.IsAsked());
  }
  ASSERT_EQ(times.Sums().size(), 1u);
  EXPECT_EQ(times.Sums()[0].name, "outer");
}

TEST(OperationTimes, DescribeProducts) {
  const Tensor a({2, 3}), b({3, 4}), bias({4});
  Tensor c({2, 4});
  EXPECT_EQ(kernels::Describe({a, b, c}), "2 × 3 × 4");
  EXPECT_EQ(kernels::Describe({.a = a, .b = b, .c = c, .add = true}), "2 × 3 × 4 + what is there");
  EXPECT_EQ(kernels::Describe({.a = a,
                               .b = b,
                               .c = c,
                               .bias = bias,
                               .then = kernels::ActivationArguments{.x = c, .y = c}}),
            "2 × 3 × 4 + bias, activation");
}

// Times of a GPU are those of its work, not of its launches.
TEST(CudaOperationTimes, AreThoseOfItsWork) {
  if (ListGpus().empty()) GTEST_SKIP() << "no GPU";
  const Context context({.device = {DeviceType::kCuda, 0}});
  constexpr int64_t kBytes = int64_t{1} << 30;
  Tensor large({kBytes / 4}, DataType::kF32, context.device());
  OperationTimes times(context);
  const Stopwatch watch;
  kernels::Zero({.y = large}, context);
  kernels::Zero({.y = large}, context);
  const std::vector<OperationTime> sums = times.Sums();  // waits
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].calls, 2);
  EXPECT_LT(sums[0].seconds, watch.Seconds());
  EXPECT_GT(sums[0].seconds, 2 * kBytes / 100e12);  // no memory is as fast
}

}  // namespace
}  // namespace favor
