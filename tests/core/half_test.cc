#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace favor {
namespace {

TEST(Half, EveryF16ValueSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = FromF16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromF16(ToF16(value))));
    } else {
      ASSERT_EQ(ToF16(value), half) << value;
    }
  }
}

TEST(Half, EveryBF16ValueSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = FromBF16(half);
    if (!std::isnan(value)) {
      ASSERT_EQ(ToBF16(value), half) << value;
    }
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  EXPECT_EQ(ToF16(1.0), 0x3c00);
  EXPECT_EQ(ToF16(1 + 0x1p-11), 0x3c00);      // halfway, down to even
  EXPECT_EQ(ToF16(1 + 3 * 0x1p-11), 0x3c02);  // halfway, up to even
  EXPECT_EQ(ToF16(1 + 0x1p-11 + 0x1p-40),
            0x3c01);                  // a bit more: float in between would round it away
  EXPECT_EQ(ToF16(65504.0), 0x7bff);  // the largest
  EXPECT_EQ(ToF16(65519.99), 0x7bff);
  EXPECT_EQ(ToF16(65520.0), 0x7c00);  // halfway to 2¹⁶: infinity
  EXPECT_EQ(ToF16(0x1p-24), 0x0001);  // the smallest subnormal
  EXPECT_EQ(ToF16(0x1p-25), 0x0000);  // half of it, to even
  EXPECT_EQ(ToF16(-0.0), 0x8000);
  EXPECT_EQ(ToF16(std::numeric_limits<double>::infinity()), 0x7c00);
  EXPECT_EQ(ToBF16(1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(ToBF16(1 + 3 * 0x1p-8), 0x3f82);
}

}  // namespace
}  // namespace favor
