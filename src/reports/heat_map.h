// A matrix as coloured cells, in SVG: blue below zero, red above, grey where there is no value.
#ifndef FAVOR_REPORTS_HEAT_MAP_H_
#define FAVOR_REPORTS_HEAT_MAP_H_

#include <string>
#include <vector>

namespace favor::reports {

struct HeatMap {
  std::string title;
  std::string scale;              // what the colours measure
  std::vector<std::string> rows;  // their labels
  std::vector<std::string>
      columns;  // one or two letters each; every tenth is also numbered, from 1
  std::vector<std::vector<double>> values;  // [rows][columns]; NaN: none
};

// Long rows are broken into bands below each other. Cells say their value when pointed at.
std::string ToSvg(const HeatMap& map);

// "#rrggbb" of a value between −most and most.
std::string HeatColor(double value, double most);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_HEAT_MAP_H_
