#include "reports/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "favor/error.h"
#include "io/png.h"

namespace favor::reports {
namespace {

TEST(Table, AlignsByWhatIsSeen) {
  const Table table{
      .title = "t", .caption = "", .columns = {"näme", "n"}, .rows = {{"a", "1.5"}, {"ωω", "22"}}};
  EXPECT_EQ(table.ToText(), "t\n  näme    n\n  a     1.5\n  ωω     22\n");
}

TEST(Table, AColumnStandsOnOneSide) {
  const Table table{
      .title = "t",
      .caption = "",
      .columns = {"name", "n", "share"},
      .rows = {{"2-gram", "none", "5 %"}, {"3-gram", "1", "+12.5 %"}, {"7", "22", "—"}}};
  EXPECT_EQ(table.ToText(),
            "t\n  name       n    share\n  2-gram  none      5 %\n  3-gram     1  +12.5 %\n"
            "  7         22        —\n");
}

TEST(Table, EscapesHtml) {
  const Table table{.title = "<t>", .caption = "a & b", .columns = {"x"}, .rows = {{"<script>"}}};
  const std::string html = table.ToHtml();
  EXPECT_EQ(html.find("<script>"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(html.find("a &amp; b"), std::string::npos);
}

// A page shows what follows a long table, and all of the table at a click.
TEST(Table, LongOnesAreFolded) {
  Table table{.title = "t", .caption = "c", .columns = {"x"}};
  for (int i = 0; i < 24; ++i) table.rows.push_back({std::to_string(100 + i)});
  EXPECT_EQ(table.ToHtml().find("<details>"), std::string::npos);
  table.rows.push_back({"last"});
  const std::string html = table.ToHtml();
  EXPECT_NE(html.find("<p>c</p>\n<details><summary>25 rows</summary>\n<div"), std::string::npos);
  for (const char* cell : {">100<", ">last<"})
    EXPECT_NE(html.find(cell, html.find("<details>")), std::string::npos) << cell;
  EXPECT_TRUE(html.ends_with("</table></div>\n</details>\n"));
}

TEST(Table, CsvQuotesWhatNeedsIt) {
  const Table table{.title = "t",
                    .caption = "c",
                    .columns = {"a, b", "c"},
                    .rows = {{"1", "say \"so\""}, {"two\nlines", "± 2"}}};
  EXPECT_EQ(table.ToCsv(), "\"a, b\",c\n1,\"say \"\"so\"\"\"\n\"two\nlines\",± 2\n");
}

TEST(Plot, DrawsEverySeries) {
  const Plot plot{.title = "error \"of\" x_1",
                  .caption = "",
                  .x_label = "m",
                  .y_label = "e",
                  .log_x = true,
                  .log_y = true,
                  .series = {{.name = "one", .points = {{1, 1}, {2, 0.5}, {4, 1e-300 * 0}}},
                             {.name = "two", .points = {{1, 3}}, .color = 1, .markers = true}}};
  const auto svg = RenderSvg(plot);
  ASSERT_TRUE(svg.has_value()) << "gnuplot is installed by make deps";
  EXPECT_EQ(svg->rfind("<svg", 0), 0u);
  EXPECT_NE(svg->find("one"), std::string::npos);
  EXPECT_NE(svg->find("error \"of\" x_1"), std::string::npos);
}

// Texts of a picture with one anchor: gnuplot centres labels below the x axis and ends those of the
// y axis at it.
std::set<std::string> Texts(const std::string& svg, const std::string& anchor) {
  std::set<std::string> texts;
  const std::string mark = "text-anchor=\"" + anchor + "\"", span = "<tspan", close = "</tspan>";
  for (size_t at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1)) {
    const size_t begin = svg.find('>', svg.find(span, at)) + 1;
    std::string text = svg.substr(begin, svg.find(close, begin) - begin);
    text.erase(0, text.find_first_not_of(' '));
    texts.insert(text);
  }
  return texts;
}

TEST(Plot, AxesAreTheirOwn) {
  Plot plot{.title = "",
            .caption = "",
            .x_label = "",
            .y_label = "",
            .series = {{.name = "one", .points = {{100, 600}, {200, 700}}}}};
  const auto texts = [&](const std::string& anchor) {
    return Texts(RenderSvg(plot).value_or(""), anchor);
  };
  EXPECT_FALSE(texts("middle").contains("0"));
  EXPECT_FALSE(texts("end").contains("0"));
  EXPECT_TRUE(texts("middle").contains("150") || texts("middle").contains("160"));
  EXPECT_TRUE(texts("end").contains("650") || texts("end").contains("660"));
  plot.from_zero = true;
  EXPECT_FALSE(texts("middle").contains("0"));
  EXPECT_TRUE(texts("end").contains("0"));
  plot = {.title = "",
          .caption = "",
          .x_label = "",
          .y_label = "",
          .log_x = true,
          .series = {{.name = "one", .points = {{1, 1}, {64, 64}}}}};
  for (const char* power : {"1", "2", "8", "32", "64"})
    EXPECT_TRUE(texts("middle").contains(power)) << power;
  EXPECT_FALSE(texts("end").contains("32"));
}

// Bars reach as far as the deviations; one that would reach 0 on a logarithmic axis has no lower
// part, so that the axis ends near the points.
TEST(Plot, BarsShowDeviations) {
  Plot plot{.title = "",
            .caption = "",
            .x_label = "",
            .y_label = "",
            .series = {{.name = "one", .points = {{1, 10}, {2, 11}}, .deviations = {5, 5}}}};
  EXPECT_TRUE(Texts(RenderSvg(plot).value_or(""), "end").contains("16"));
  plot.series[0].deviations.clear();
  EXPECT_FALSE(Texts(RenderSvg(plot).value_or(""), "end").contains("16"));
  plot.log_y = true;
  plot.series[0].points = {{1, 10}, {2, 20}};
  const auto before = RenderSvg(plot);
  plot.series[0].deviations = {9.999999, 20};
  const auto deep = RenderSvg(plot);
  plot.series[0].deviations = {10, 20};
  const auto open = RenderSvg(plot);
  ASSERT_TRUE(before && deep && open);
  // 10^-6 is on the axis only if a bar goes there.
  EXPECT_NE(Texts(*deep, "end"), Texts(*open, "end"));
}

TEST(Plot, SurfacesHaveAxesAndAScale) {
  const auto svg = RenderSvg(Surface{.title = "map",
                                     .caption = "",
                                     .x_label = "angle",
                                     .y_label = "length",
                                     .value_label = "ratio",
                                     .xs = {0, 1, 2},
                                     .ys = {0, 1},
                                     .values = {{-3, 0, 3}, {1, 2, std::nan("")}}});
  ASSERT_TRUE(svg.has_value());
  for (const char* text : {"map", "angle", "length", "ratio"})
    EXPECT_NE(svg->find(text), std::string::npos) << text;
  EXPECT_NE(RenderSvg(Surface{.xs = {0, 1}, .ys = {0, 1}, .values = {{0, 0}, {0, 0}}}),
            std::nullopt);  // one colour only
}

TEST(Report, IsSelfContained) {
  Report report("title", "favor lab x");
  report.AddText("a < b");
  report.AddPlot({.title = "p",
                  .caption = "c",
                  .x_label = "x",
                  .y_label = "y",
                  .series = {{.name = "s", .points = {{1, 1}, {2, 2}}}}});
  const std::string html = report.ToHtml();
  for (const char* foreign : {"<script", "<link", "src=", "@import", "url(http"}) {
    EXPECT_EQ(html.find(foreign), std::string::npos) << foreign;
  }
  EXPECT_NE(html.find("a &lt; b"), std::string::npos);
  EXPECT_NE(html.find("favor lab x"), std::string::npos);
}

// A decoder that is independent of the encoder.
std::string FromBase64(std::string_view text) {
  const std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  EXPECT_EQ(text.size() % 4, 0u);
  std::string bytes, bits;
  for (const char c : text.substr(0, text.find('='))) {
    const size_t digit = digits.find(c);
    EXPECT_NE(digit, std::string_view::npos) << c;
    for (int bit = 5; bit >= 0; --bit) bits += (digit >> bit & 1) != 0 ? '1' : '0';
  }
  for (size_t at = 0; at + 8 <= bits.size(); at += 8)
    bytes += static_cast<char>(std::stoi(bits.substr(at, 8), nullptr, 2));
  return bytes;
}

TEST(Report, HoldsPictures) {
  // Files whose lengths leave each remainder modulo three.
  std::set<size_t> lengths;
  for (int64_t width = 1; width < 12; ++width) {
    std::vector<uint8_t> pixels;
    for (int64_t i = 0; i < 2 * width; ++i) pixels.push_back(static_cast<uint8_t>(i * i * 37));
    const std::string png =
        io::EncodePng({.height = 2, .width = width, .channels = 1, .pixels = pixels});
    lengths.insert(png.size() % 3);
    Report report("title", "favor report");
    report.AddPicture(png, "sample <1> \"a\"");
    const std::string html = report.ToHtml();
    const std::string before = "src=\"data:image/png;base64,";
    const size_t at = html.find(before);
    ASSERT_NE(at, std::string::npos) << html;
    const size_t begin = at + before.size();
    EXPECT_EQ(FromBase64(html.substr(begin, html.find('"', begin) - begin)), png);
    EXPECT_NE(html.find("<figcaption>sample &lt;1&gt; &quot;a&quot;<"), std::string::npos);
    EXPECT_NE(html.find("image-rendering:pixelated"), std::string::npos);
  }
  EXPECT_EQ(lengths.size(), 3u);
}

TEST(Report, EnlargesSmallPictures) {
  const auto sizes = [](int64_t height, int64_t width) {
    Report report("title", "favor report");
    report.AddPicture(
        io::EncodePng({.height = height,
                       .width = width,
                       .channels = 1,
                       .pixels = std::vector<uint8_t>(static_cast<size_t>(height * width))}),
        "");
    const std::string html = report.ToHtml();
    const size_t at = html.find("<img ") + 5;
    return html.substr(at, html.find(" alt", at) - at);
  };
  EXPECT_EQ(sizes(28, 28), "width=\"168\" height=\"168\"");
  EXPECT_EQ(sizes(10, 100), "width=\"200\" height=\"20\"");
  EXPECT_EQ(sizes(1, 500), "width=\"500\" height=\"1\"");
  Report report("title", "favor report");
  EXPECT_THROW(report.AddPicture("not a picture", ""), Error);
}

}  // namespace
}  // namespace favor::reports
