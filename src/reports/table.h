// A table of results: printed as text and written into the report as HTML.
#ifndef FAVOR_REPORTS_TABLE_H_
#define FAVOR_REPORTS_TABLE_H_

#include <string>
#include <vector>

namespace favor::reports {

struct Table {
  std::string title;
  std::string caption;  // what the columns mean and what to look for
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // formatted cells, one for each column

  std::string ToText() const;
  std::string ToHtml() const;  // long tables unfold by a click
  std::string ToCsv() const;   // the columns and rows, as in RFC 4180 but with plain line ends
};

// Width on a screen: a UTF-8 sequence counts as one column.
size_t DisplayWidth(const std::string& text);

std::string EscapeHtml(const std::string& text);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_TABLE_H_
