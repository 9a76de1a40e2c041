#include "core/simd.h"

#include <gtest/gtest.h>

#include "favor/error.h"

namespace favor {
namespace {

TEST(Simd, CanBeChosenAmongThoseOfTheMachine) {
  const auto names = SimdNames();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "scalar");
  for (const std::string& name : names) {
    UseSimd(name);
    EXPECT_EQ(SimdName(), name);
    EXPECT_EQ(SimdNames(), names);
  }
  UseSimd(names.front());
}

TEST(Simd, RefusesUnknownNames) {
  try {
    UseSimd("avx1024");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_NE(std::string(error.what()).find("expected one of: "), std::string::npos);
  }
}

}  // namespace
}  // namespace favor
