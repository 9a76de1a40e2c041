#include "core/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace favor {
namespace {

TEST(Progress, WritesPlainLinesWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("work", 100);
    for (int64_t i = 1; i <= 100; ++i) progress.Update(i, "step");
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("work: 1/100"), std::string::npos) << text;
  EXPECT_NE(text.find("work: 100/100"), std::string::npos) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            2);  // the first and the last; the rest came too soon
}

TEST(Progress, IsSilentWhenQuiet) {
  testing::internal::CaptureStderr();
  { Progress("work", 10, /*quiet=*/true).Update(10); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace favor
