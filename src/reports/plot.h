// Plots as SVG text, drawn by gnuplot.
#ifndef FAVOR_REPORTS_PLOT_H_
#define FAVOR_REPORTS_PLOT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace favor::reports {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  int color = 0;         // series of one colour belong together, such as prediction and measurement
  bool markers = false;  // points without a line and without an entry in the key
  std::vector<double> deviations = {};  // of each point, drawn as bars; empty: none
};

struct Plot {
  std::string title;
  std::string caption;
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
  bool from_zero = false;  // the y axis begins at 0
  std::vector<Series> series;
};

// A value for each pair of an x and a y, as colours: blue below 0, red above.
struct Surface {
  std::string title;
  std::string caption;
  std::string x_label, y_label, value_label;
  std::vector<double> xs, ys;               // ascending, at equal distances
  std::vector<std::vector<double>> values;  // [ys][xs]; NaN: none
};

// Empty if gnuplot is missing or fails, or if there is no folder for temporary files.
std::optional<std::string> RenderSvg(const Plot& plot);
std::optional<std::string> RenderSvg(const Surface& surface);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_PLOT_H_
