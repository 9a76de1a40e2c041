#include "reports/table.h"

#include <algorithm>
#include <charconv>

namespace favor::reports {
namespace {

// On a page, a longer table would push what follows it, such as its plot, off the screen.
constexpr size_t kMostRowsUnfolded = 24;

// Whether a cell is a number, perhaps with a unit after a space; "2-gram" is a name.
bool LooksNumeric(const std::string& cell) {
  if (cell == "—") return true;
  const char* const end = cell.data() + cell.size();
  double value = 0;
  const auto [rest, error] =
      std::from_chars(cell.data() + (cell.starts_with('+') ? 1 : 0), end, value);
  return error == std::errc() && (rest == end || *rest == ' ');
}

// Columns of numbers are aligned to the right; the majority of cells decides for the column.
std::vector<bool> NumericColumns(const Table& table) {
  std::vector<bool> numeric;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const auto numbers = std::ranges::count_if(
        table.rows, [&](const auto& row) { return LooksNumeric(row[column]); });
    numeric.push_back(2 * numbers > std::ssize(table.rows));
  }
  return numeric;
}

}  // namespace

size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Table::ToText() const {
  std::vector<size_t> widths;
  const std::vector<bool> right = NumericColumns(*this);
  for (size_t column = 0; column < columns.size(); ++column) {
    size_t width = DisplayWidth(columns[column]);
    for (const auto& row : rows) width = std::max(width, DisplayWidth(row[column]));
    widths.push_back(width);
  }
  std::string text = title + "\n";
  const auto append = [&](const std::vector<std::string>& cells) {
    for (size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - DisplayWidth(cells[column]), ' ');
      text += "  " + (right[column] ? padding + cells[column] : cells[column] + padding);
    }
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  };
  append(columns);
  for (const auto& row : rows) append(row);
  return text;
}

std::string Table::ToHtml() const {
  std::string html = "<h2>" + EscapeHtml(title) + "</h2>\n<p>" + EscapeHtml(caption) + "</p>\n";
  const bool folded = rows.size() > kMostRowsUnfolded;
  if (folded) html += "<details><summary>" + std::to_string(rows.size()) + " rows</summary>\n";
  html += "<div class=\"scroll\"><table>\n<tr>";
  const std::vector<bool> numeric = NumericColumns(*this);
  for (size_t i = 0; i < columns.size(); ++i)
    html += (numeric[i] ? "<th class=\"n\">" : "<th>") + EscapeHtml(columns[i]) + "</th>";
  html += "</tr>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      html += (numeric[i] ? "<td class=\"n\">" : "<td>") + EscapeHtml(row[i]) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></div>\n" + (folded ? "</details>\n" : "");
}

std::string Table::ToCsv() const {
  std::string csv;
  const auto append = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) csv += ',';
      if (cells[i].find_first_of(",\"\n") == std::string::npos) {
        csv += cells[i];
        continue;
      }
      csv += '"';
      for (const char c : cells[i]) csv += c == '"' ? "\"\"" : std::string(1, c);
      csv += '"';
    }
    csv += '\n';
  };
  append(columns);
  for (const auto& row : rows) append(row);
  return csv;
}

}  // namespace favor::reports
