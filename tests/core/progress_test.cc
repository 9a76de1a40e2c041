#include "core/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

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

// One step of a resumed run takes at least the time slept: what is left, 98,999 steps, takes more
// than an hour. Shared out over the steps before it would be seconds.
TEST(Progress, TimeLeftIsThatOfStepsSinceTheFirst) {
  testing::internal::CaptureStderr();
  {
    Progress progress("work", 100'000, /*quiet=*/false, /*first=*/1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    progress.Update(1001);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("work: 1001/100000, ")) << text;
  EXPECT_TRUE(text.ends_with("m left\n")) << text;  // hours and minutes
  EXPECT_NE(text.find('h'), std::string::npos) << text;
}

TEST(Progress, IsSilentWhenQuiet) {
  testing::internal::CaptureStderr();
  { Progress("work", 10, /*quiet=*/true).Update(10); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Columns that a line takes: blocks of the bar have three bytes each.
size_t Columns(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST(Progress, ABarGivesWayBeforeNumbersDo) {
  const auto line = [](int width) {
    return BarLine({.title = "train",
                    .share = 0.5,
                    .left = "16m37s left",
                    .note = "loss 7.196  accuracy 0.016  4400 tokens/s",
                    .width = width});
  };
  for (int width = 24; width < 120; ++width) {
    const std::string text = line(width);
    EXPECT_TRUE(text.ends_with("left") || text.ends_with("loss 7.196") ||
                text.ends_with("accuracy 0.016") || text.ends_with("4400 tokens/s"))
        << width << ": " << text;
    if (width >= 36) {
      EXPECT_LE(Columns(text), static_cast<size_t>(width)) << text;
    }
  }
  EXPECT_TRUE(line(80).ends_with("4400 tokens/s")) << line(80);
  EXPECT_TRUE(line(50).ends_with("loss 7.196")) << line(50);
}

}  // namespace
}  // namespace favor
