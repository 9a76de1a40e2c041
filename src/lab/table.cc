#include "lab/table.h"

#include <algorithm>

namespace favor::lab {
namespace {

bool LooksNumeric(const std::string& cell) {
  return !cell.empty() &&
         (cell.find_first_of("0123456789") == 0 || cell[0] == '+' || cell[0] == '-' || cell == "—");
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
  for (size_t column = 0; column < columns.size(); ++column) {
    size_t width = DisplayWidth(columns[column]);
    for (const auto& row : rows) width = std::max(width, DisplayWidth(row[column]));
    widths.push_back(width);
  }
  std::string text = title + "\n";
  const auto append = [&](const std::vector<std::string>& cells, bool header) {
    for (size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - DisplayWidth(cells[column]), ' ');
      const bool right = LooksNumeric(header && !rows.empty() ? rows[0][column] : cells[column]);
      text += "  " + (right ? padding + cells[column] : cells[column] + padding);
    }
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  };
  append(columns, true);
  for (const auto& row : rows) append(row, false);
  return text;
}

std::string Table::ToHtml() const {
  std::string html = "<h2>" + EscapeHtml(title) + "</h2>\n<p>" + EscapeHtml(caption) +
                     "</p>\n<div class=\"scroll\"><table>\n<tr>";
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool number = !rows.empty() && LooksNumeric(rows[0][i]);
    html += (number ? "<th class=\"n\">" : "<th>") + EscapeHtml(columns[i]) + "</th>";
  }
  html += "</tr>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const auto& cell : row) {
      html += (LooksNumeric(cell) ? "<td class=\"n\">" : "<td>") + EscapeHtml(cell) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace favor::lab
