#include "data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace favor {
namespace {

TEST(Permutation, IsABijection) {
  for (int64_t count = 1; count <= 300; ++count) {
    const data::Permutation order(RandomStream(static_cast<uint64_t>(count), "order"), count);
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) seen.push_back(order.At(i));
    EXPECT_TRUE(count < 20 || !std::is_sorted(seen.begin(), seen.end())) << count;
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> expected(static_cast<size_t>(count));
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(seen, expected);
  }
}

// In 10,000 orders of 10, 0 goes to every place equally often, by χ² with 9 degrees of freedom
// (99.99 %: 33.7).
TEST(Permutation, HasNoFavouritePlace) {
  std::vector<double> counts(10);
  for (uint64_t i = 0; i < 10000; ++i) {
    const data::Permutation order(RandomStream(1, "order").Child(i), 10);
    ++counts[static_cast<size_t>(order.At(0))];
  }
  double chi = 0;
  for (const double count : counts) chi += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi, 33.7);
}

}  // namespace
}  // namespace favor
