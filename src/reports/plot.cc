#include "reports/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace favor::reports {
namespace {

// Distinguishable with the common kinds of colour blindness (Okabe and Ito).
constexpr std::array<std::string_view, 8> kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                     "#e69f00", "#56b4e9", "#000000", "#999999"};
constexpr std::array<int, 8> kPointTypes = {7, 5, 9, 13, 11, 6, 4, 8};

// Text in single quotes, in which gnuplot neither runs nor replaces anything, with its _ and ^
// markup turned off. Names may come from anyone.
std::string Quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < ' ';
    quoted += control ? " " : c == '\'' ? "''" : std::string(1, c);
  }
  return quoted + "' noenhanced";
}

// What all pictures have: their size, axes and title.
template <class Picture>
std::string Head(const Picture& picture) {
  return "set terminal svg size 760,460 dynamic font 'sans-serif,13' background '#ffffff'\n"
         "set output 'plot.svg'\n"
         "set border 3 lc rgb '#888888'\nset tics nomirror textcolor rgb '#333333'\n"
         "set xlabel " +
         Quote(picture.x_label) + "\nset ylabel " + Quote(picture.y_label) + "\nset title " +
         Quote(picture.title) + "\n";
}

std::string Script(const Plot& plot) {
  std::string script = Head(plot) +
                       "set grid lc rgb '#e4e4e4'\nset pointintervalbox 0\nset key outside right "
                       "top noenhanced samplen 2\n";
  if (plot.from_zero) script += "set yrange [0:*]\n";
  if (plot.log_x) script += "set logscale x 2\n";
  if (plot.log_y) script += "set logscale y 10\nset format y '10^{%L}'\n";
  std::string bars, lines;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const Series& series = plot.series[i];
    script += fmt::format("$data{} << EOD\n", i);
    for (size_t at = 0; at < series.points.size(); ++at) {
      const auto& [x, y] = series.points[at];
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      // A bar that would reach 0 on a logarithmic axis has no lower part.
      const double deviation = at < series.deviations.size() ? series.deviations[at] : 0,
                   low = plot.log_y && deviation >= y ? y : y - deviation;
      script += fmt::format("{:.9g} {:.9g} {:.9g} {:.9g}\n", x, y, low, y + deviation);
    }
    script += "EOD\n";
    const auto color = static_cast<size_t>(series.color) % kColors.size();
    const std::string style = series.markers
                                  ? fmt::format("points pt {} ps 0.7 lc rgb '{}' notitle",
                                                kPointTypes[color], kColors[color])
                                  : fmt::format("linespoints lw 2 pt 7 ps 0.3 lc rgb '{}' title {}",
                                                kColors[color], Quote(series.name));
    // Lines over bars: gnuplot leaves a gap around the point of a bar.
    if (!series.deviations.empty())
      bars += fmt::format("$data{} using 1:2:3:4 with yerrorbars pt 7 ps 0.3 lc rgb '{}' notitle, ",
                          i, kColors[color]);
    lines += fmt::format("{}$data{} using 1:2 with {}", i == 0 ? "" : ", ", i, style);
  }
  return script + "plot " + bars + lines + "\n";
}

std::string Script(const Surface& surface) {
  std::string script = Head(surface) + "set cblabel " + Quote(surface.value_label) +
                       "\nunset key\nset palette defined (-1 '#2166ac', 0 '#ffffff', 1 '#b2182b')\n"
                       "set tics front\n$data << EOD\n";
  double most = 0;
  for (size_t y = 0; y < surface.ys.size(); ++y) {
    for (size_t x = 0; x < surface.xs.size(); ++x) {
      const double value = surface.values[y][x];
      script += fmt::format("{:.9g} {:.9g} {:.9g}\n", surface.xs[x], surface.ys[y], value);
      if (std::isfinite(value)) most = std::max(most, std::fabs(value));
    }
  }
  if (most == 0) most = 1;  // an empty range is an error
  return script + fmt::format("EOD\nset cbrange [{:.9g}:{:.9g}]\n", -most, most) +
         fmt::format("set xrange [{:.9g}:{:.9g}]\nset yrange [{:.9g}:{:.9g}]\n", surface.xs.front(),
                     surface.xs.back(), surface.ys.front(), surface.ys.back()) +
         "plot $data using 1:2:3 with image pixels\n";
}

// Runs gnuplot in `folder`, which holds the script and gets the picture.
bool RunGnuplot(const std::string& folder) {
  std::string program = "gnuplot", argument = "plot.gp";
  char* arguments[] = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::optional<std::string> Render(const std::string& script) {
  std::error_code none;
  std::string folder = (std::filesystem::temp_directory_path(none) / "favor-plot-XXXXXX").string();
  if (none || mkdtemp(folder.data()) == nullptr) return std::nullopt;
  std::ofstream(folder + "/plot.gp") << script;
  std::optional<std::string> svg;
  if (RunGnuplot(folder)) {
    std::stringstream text;
    text << std::ifstream(folder + "/plot.svg").rdbuf();
    svg = text.str();
    // Inline SVG in HTML: the XML prolog and document type do not belong there.
    svg->erase(0, std::min(svg->find("<svg"), svg->size()));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (svg && svg->empty()) return std::nullopt;
  return svg;
}

}  // namespace

std::optional<std::string> RenderSvg(const Plot& plot) { return Render(Script(plot)); }
std::optional<std::string> RenderSvg(const Surface& surface) { return Render(Script(surface)); }

}  // namespace favor::reports
