// A self-contained HTML page: no scripts, no other files.
#ifndef FAVOR_REPORTS_REPORT_H_
#define FAVOR_REPORTS_REPORT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/plot.h"
#include "reports/table.h"

namespace favor::reports {

// A whole page around `body`.
std::string HtmlPage(const std::string& title, const std::string& body, const std::string& command);

class Report {
 public:
  struct DrawnPlot {
    std::string title, svg;
  };

  Report(std::string title, std::string command)
      : title_(std::move(title)), command_(std::move(command)) {}

  void AddText(const std::string& paragraph);
  void AddTable(const Table& table);
  void AddPlot(const Plot& plot) { AddDrawn(plot.title, plot.caption, RenderSvg(plot)); }
  void AddSurface(const Surface& surface) {
    AddDrawn(surface.title, surface.caption, RenderSvg(surface));
  }
  void AddWarning(const std::string& warning) { warnings_.push_back(warning); }  // for the terminal
  void AddHeading(const std::string& heading);
  // A picture in PNG format, small ones enlarged with visible pixels; pictures that follow each
  // other stand in a row. Throws kInvalidData for other bytes.
  void AddPicture(std::string_view png_bytes, const std::string& caption);
  // Text as it is, in a monospaced font; long lines wrap.
  void AddPreformatted(const std::string& text);

  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<DrawnPlot>& plots() const { return plots_; }
  bool plots_missing() const { return plots_missing_; }  // gnuplot was missing, or failed
  const std::string& body() const { return body_; }      // without title and footer
  std::string ToHtml() const { return HtmlPage(title_, body_, command_); }

 private:
  void AddDrawn(const std::string& title, const std::string& caption,
                const std::optional<std::string>& svg);

  std::string title_, command_, body_;
  std::vector<Table> tables_;
  std::vector<DrawnPlot> plots_;
  std::vector<std::string> warnings_;
  bool plots_missing_ = false;
};

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_REPORT_H_
