#include "core/operation_times.h"

#include <gtest/gtest.h>

#include "kernels/copy.h"
#include "kernels/matmul.h"

namespace favor {
namespace {

TEST(OperationTimes, AreSummedByNameWhileTheyAreAskedFor) {
  const Context context({.threads = 1});
  Tensor a({64, 64}), b({64, 64}), c({64, 64});
  const auto multiply = [&] { kernels::Matmul({a, b, c}, context); };
  multiply();
  {
    OperationTimes times(context);
    EXPECT_TRUE(times.seconds().empty());
    multiply();
    const double once = times.seconds().at("matmul");
    EXPECT_GT(once, 0);
    multiply();
    EXPECT_GT(times.seconds().at("matmul"), once);
    kernels::Zero({.y = c}, context);
    EXPECT_EQ(times.seconds().size(), 2u);
  }
  multiply();  // nobody asks
  OperationTimes again(context);
  EXPECT_TRUE(again.seconds().empty());
}

// What an operation calls counts once, as part of it.
TEST(OperationTimes, CountNestedOperationsOnce) {
  const Context context({.threads = 1});
  OperationTimes times(context);
  {
    const OperationTimer outer(context, "outer");
    const OperationTimer inner(context, "inner");
  }
  EXPECT_EQ(times.seconds().size(), 1u);
  EXPECT_TRUE(times.seconds().contains("outer"));
}

}  // namespace
}  // namespace favor
