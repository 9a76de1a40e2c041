#include "reports/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/table.h"

namespace favor::reports {
namespace {

constexpr int kCell = 12, kLeft = 34, kTop = 46, kGap = 40;  // in pixels
constexpr size_t kColumnsOfBand = 75;

// White in the middle; both ends are equally dark, and told apart with every kind of colour vision.
constexpr std::array<double, 3> kLow = {33, 102, 172}, kHigh = {178, 24, 43};

double MostOf(const HeatMap& map) {
  double most = 0;
  for (const auto& row : map.values) {
    for (const double value : row)
      if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

std::string Text(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     EscapeHtml(text));
}

std::string Band(const HeatMap& map, size_t first, size_t end, double top, double most) {
  std::string svg;
  for (size_t row = 0; row < map.rows.size(); ++row)
    svg += Text(kLeft - 6, top + static_cast<double>(row) * kCell + 10, "end", map.rows[row]);
  for (size_t column = first; column < end; ++column) {
    const double x = kLeft + static_cast<double>(column - first) * kCell;
    svg += Text(x + kCell / 2.0, top - 4, "middle", map.columns[column]);
    if ((column + 1) % 10 == 0)
      svg += Text(x + kCell / 2.0, top - 17, "middle", std::to_string(column + 1));
    for (size_t row = 0; row < map.rows.size(); ++row) {
      const double value = map.values[row][column];
      svg += fmt::format(
          "<rect x=\"{:g}\" y=\"{:g}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}{} {}: "
          "{}</title></rect>\n",
          x, top + static_cast<double>(row) * kCell, kCell, kCell, HeatColor(value, most),
          EscapeHtml(map.columns[column]), column + 1, EscapeHtml(map.rows[row]),
          std::isfinite(value) ? fmt::format("{:.3f}", value) : "none");
    }
  }
  return svg;
}

// The colours from −most to most, with their numbers.
std::string Scale(const HeatMap& map, double y, double most) {
  constexpr int kSteps = 21;
  std::string svg;
  for (int i = 0; i < kSteps; ++i) {
    svg += fmt::format("<rect x=\"{}\" y=\"{:g}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                       kLeft + i * kCell, y, kCell, kCell,
                       HeatColor(most * (2.0 * i / (kSteps - 1) - 1), most));
  }
  svg += Text(kLeft, y + kCell + 13, "start", fmt::format("{:.3g}", -most));
  svg += Text(kLeft + kSteps * kCell / 2.0, y + kCell + 13, "middle", "0");
  svg += Text(kLeft + kSteps * kCell, y + kCell + 13, "end", fmt::format("{:.3g}", most));
  return svg + Text(kLeft + (kSteps + 1) * kCell, y + 10, "start", map.scale);
}

}  // namespace

std::string HeatColor(double value, double most) {
  if (!std::isfinite(value)) return "#dddddd";
  const double share = most > 0 ? std::clamp(value / most, -1.0, 1.0) : 0;
  const auto& end = share < 0 ? kLow : kHigh;
  std::string color = "#";
  for (const double part : end) {
    color +=
        fmt::format("{:02x}", static_cast<int>(std::lround(255 + std::abs(share) * (part - 255))));
  }
  return color;
}

std::string ToSvg(const HeatMap& map) {
  const double most = MostOf(map);
  const double band = static_cast<double>(map.rows.size()) * kCell + kGap;
  std::string body = Text(kLeft, 16, "start", map.title);
  double top = kTop + 8;
  for (size_t first = 0; first < map.columns.size(); first += kColumnsOfBand) {
    body += Band(map, first, std::min(first + kColumnsOfBand, map.columns.size()), top, most);
    top += band;
  }
  body += Scale(map, top - kGap / 2.0, most);
  const auto widest =
      static_cast<double>(std::clamp<size_t>(map.columns.size(), 50, kColumnsOfBand));
  const double width = kLeft + widest * kCell + 10, height = top + 24;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 "
      "{0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width, height, body);
}

}  // namespace favor::reports
