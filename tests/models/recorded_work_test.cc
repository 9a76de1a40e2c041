// Work that is recorded when it runs for the second time: a GPU repeats it, with what its arrays
// hold by then.
#include "models/recorded_work.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/device.h"
#include "core/device_array.h"
#include "core/device_work.h"
#include "core/operation_times.h"
#include "kernels/copy.h"
#include "kernels/embedding.h"

namespace favor {
namespace {

// Adds row i of a table of three rows, i + 1 everywhere, to a sum, where i is sent before.
class Adder {
 public:
  explicit Adder(const Context& context) : context_(context), table_({3, 4}), sum_({1, 4}) {
    for (int64_t i = 0; i < 12; ++i) table_.Data<float>()[i] = static_cast<float>(i / 4 + 1);
    table_ = table_.To(context.device());
    sum_ = sum_.To(context.device());
  }

  // Returns whether the work was called.
  bool Add(int32_t row) {
    host_ = {row};
    const int32_t* there = sent_.Send(host_, context_);
    return work_.Run(context_, [&] {
      const WorkArray copy(context_, sum_.shape(), DataType::kF32);
      kernels::Copy({.from = std::as_const(sum_).view(), .to = copy.view()}, context_);
      kernels::Embedding({.table = std::as_const(table_).view(),
                          .rows = {.first = kernels::FirstRow(there), .length = 1},
                          .scale = 1,
                          .add = true,
                          .y = copy.view()},
                         context_);
      kernels::Copy({.from = copy.view(), .to = sum_}, context_);
    });
  }
  void Drop() { work_.Drop(); }
  float Sum() const {
    context_.Wait();
    return sum_.To(Device{}).Data<float>()[3];
  }

 private:
  const Context& context_;
  Tensor table_, sum_;
  std::vector<int32_t> host_;
  DeviceArray<int32_t> sent_;
  models::RecordedWork work_;
};

TEST(RecordedWork, IsCalledEveryTimeOnTheCpu) {
  const Context context({.threads = 1});
  Adder adder(context);
  for (const int32_t row : {0, 1, 2, 2}) EXPECT_TRUE(adder.Add(row));
  EXPECT_EQ(adder.Sum(), 1 + 2 + 3 + 3);
}

TEST(CudaRecordedWork, IsCalledTwice) {
  if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  const Context context({.device = {DeviceType::kCuda, 0}});
  Adder adder(context);
  EXPECT_TRUE(adder.Add(0));
  EXPECT_EQ(adder.Sum(), 1);
  EXPECT_TRUE(adder.Add(1));
  EXPECT_EQ(adder.Sum(), 3);
  EXPECT_FALSE(adder.Add(2));
  EXPECT_FALSE(adder.Add(0));
  EXPECT_EQ(adder.Sum(), 7);
  {
    const OperationTimes times(context);
    EXPECT_TRUE(adder.Add(2));
  }
  EXPECT_FALSE(adder.Add(1));
  EXPECT_EQ(adder.Sum(), 12);
  adder.Drop();
  EXPECT_TRUE(adder.Add(2));
  EXPECT_TRUE(adder.Add(2));
  EXPECT_FALSE(adder.Add(0));
  EXPECT_EQ(adder.Sum(), 19);
}

}  // namespace
}  // namespace favor
