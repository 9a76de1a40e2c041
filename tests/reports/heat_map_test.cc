#include "reports/heat_map.h"

#include <gtest/gtest.h>

#include <cmath>

namespace favor::reports {
namespace {

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(HeatMap, ColorsAreWhiteInTheMiddleAndGreyForNothing) {
  EXPECT_EQ(HeatColor(0, 2), "#ffffff");
  EXPECT_EQ(HeatColor(0, 0), "#ffffff");
  EXPECT_EQ(HeatColor(-2, 2), "#2166ac");
  EXPECT_EQ(HeatColor(2, 2), "#b2182b");
  EXPECT_EQ(HeatColor(5, 2), "#b2182b");
  EXPECT_EQ(HeatColor(1, 2), "#d98c95");
  EXPECT_EQ(HeatColor(std::nan(""), 2), "#dddddd");
}

TEST(HeatMap, HasACellForEachValueInBands) {
  HeatMap map{.title = "a <b>", .scale = "nats", .rows = {"A", "C"}};
  map.values.resize(2);
  for (int i = 0; i < 80; ++i) {
    map.columns.emplace_back("M");
    map.values[0].push_back(i == 3 ? -2.5 : 0.5);
    map.values[1].push_back(std::nan(""));
  }
  const std::string svg = ToSvg(map);
  EXPECT_EQ(Count(svg, "<title>"), 160u);
  EXPECT_EQ(Count(svg, "<title>M4 A: -2.500</title>"), 1u);
  EXPECT_EQ(Count(svg, ": none</title>"), 80u);
  EXPECT_EQ(Count(svg, ">A</text>"), 2u);  // once in each band
  EXPECT_EQ(Count(svg, ">70</text>"), 1u);
  EXPECT_EQ(Count(svg, "a &lt;b&gt;"), 1u);
  EXPECT_EQ(Count(svg, ">-2.5</text>"), 1u);  // the ends of the scale
  EXPECT_EQ(Count(svg, ">2.5</text>"), 1u);
}

}  // namespace
}  // namespace favor::reports
