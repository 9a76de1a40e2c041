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

std::string Script(const Plot& plot) {
  std::string script =
      "set terminal svg size 760,460 dynamic font 'sans-serif,13' background '#ffffff'\n"
      "set output 'plot.svg'\n"
      "set border 3 lc rgb '#888888'\nset tics nomirror textcolor rgb '#333333'\n"
      "set grid lc rgb '#e4e4e4'\nset key outside right top noenhanced samplen 2\n";
  script += "set xlabel " + Quote(plot.x_label) + "\nset ylabel " + Quote(plot.y_label) + "\n";
  script += "set title " + Quote(plot.title) + "\n";
  if (plot.from_zero) script += "set yrange [0:*]\n";
  if (plot.log_x) script += "set logscale x 2\n";
  if (plot.log_y) script += "set logscale y 10\nset format y '10^{%L}'\n";
  std::string commands;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const Series& series = plot.series[i];
    script += fmt::format("$data{} << EOD\n", i);
    for (const auto& [x, y] : series.points) {
      if (std::isfinite(x) && std::isfinite(y)) script += fmt::format("{:.9g} {:.9g}\n", x, y);
    }
    script += "EOD\n";
    const auto color = static_cast<size_t>(series.color) % kColors.size();
    const std::string style = series.markers
                                  ? fmt::format("points pt {} ps 0.7 lc rgb '{}' notitle",
                                                kPointTypes[color], kColors[color])
                                  : fmt::format("linespoints lw 2 pt 7 ps 0.3 lc rgb '{}' title {}",
                                                kColors[color], Quote(series.name));
    commands += fmt::format("{}$data{} using 1:2 with {}", i == 0 ? "plot " : ", ", i, style);
  }
  return script + commands + "\n";
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

}  // namespace

std::optional<std::string> RenderSvg(const Plot& plot) {
  std::error_code none;
  std::string folder = (std::filesystem::temp_directory_path(none) / "favor-plot-XXXXXX").string();
  if (none || mkdtemp(folder.data()) == nullptr) return std::nullopt;
  std::ofstream(folder + "/plot.gp") << Script(plot);
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

}  // namespace favor::reports
