#include "reports/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "favor/version.h"
#include "io/png.h"

namespace favor::reports {
namespace {

constexpr const char* kStyle =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 "
    "1rem;color:#1a1a1a;"
    "background:#fff}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}"
    "table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}"
    "th,td{padding:.2rem .6rem;border-bottom:1px solid #e4e4e4;text-align:left;white-space:nowrap}"
    "th{border-bottom:2px solid #888}.n{text-align:right}.scroll{overflow-x:auto}"
    "summary{cursor:pointer;color:#444;font-size:.9rem}svg{max-width:100%;height:auto}code{"
    "background:#f3f3f3;padding:.1rem .3rem;border-radius:3px}"
    "pre{background:#f7f7f7;padding:.6rem .8rem;border-radius:4px;white-space:pre-wrap;"
    "overflow-wrap:anywhere;font-size:.85rem}"
    "footer{margin-top:3rem;color:#666;font-size:.85rem}figure{margin:1rem "
    "0}figcaption{color:#444;font-size:.9rem}"
    ".picture{display:inline-block;margin:.5rem 1rem .5rem 0;vertical-align:top}"
    ".picture img{display:block;max-width:100%;image-rendering:pixelated}"
    "section{border-top:2px solid #888;margin-top:3rem}td{vertical-align:top}"
    ".wrap td{white-space:normal}.yes{color:#006d4e}.no{color:#b03a00}.open{color:#666}"
    "@media print{section{break-before:page;border:0}figure,tr{break-inside:avoid}"
    ".scroll{overflow:visible}}";

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;  // three bytes, four digits
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace

void Report::AddText(const std::string& paragraph) {
  body_ += "<p>" + EscapeHtml(paragraph) + "</p>\n";
}

void Report::AddTable(const Table& table) {
  tables_.push_back(table);
  body_ += table.ToHtml();
}

void Report::AddHeading(const std::string& heading) {
  body_ += "<h2>" + EscapeHtml(heading) + "</h2>\n";
}

void Report::AddPreformatted(const std::string& text) {
  body_ += "<pre>" + EscapeHtml(text) + "</pre>\n";
}

void Report::AddPicture(std::string_view png_bytes, const std::string& caption) {
  constexpr int64_t kWide = 168;  // smallest width of a picture in CSS pixels
  const io::Picture picture =
      io::ParsePng(std::as_bytes(std::span(png_bytes)), "picture of a report");
  const int64_t scale = (kWide + picture.width - 1) / picture.width;
  body_ += fmt::format(
      "<figure class=\"picture\"><img width=\"{}\" height=\"{}\" alt=\"{}\" "
      "src=\"data:image/png;base64,{}\"><figcaption>{}</figcaption></figure>\n",
      scale * picture.width, scale * picture.height, EscapeHtml(caption), Base64(png_bytes),
      EscapeHtml(caption));
}

void Report::AddDrawn(const std::string& title, const std::string& caption,
                      const std::optional<std::string>& svg) {
  plots_missing_ = plots_missing_ || !svg;
  if (svg) plots_.push_back({title, *svg});
  body_ += "<figure>" + svg.value_or("<p>(No plot: gnuplot is not installed, or failed.)</p>") +
           "<figcaption>" + EscapeHtml(caption) + "</figcaption></figure>\n";
}

std::string HtmlPage(const std::string& title, const std::string& body,
                     const std::string& command) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
         EscapeHtml(title) +
         "</title>\n<meta name=\"viewport\" content=\"width=device-width\"><style>" + kStyle +
         "</style></head>\n<body>\n<h1>" + EscapeHtml(title) + "</h1>\n" + body +
         "<footer>favor " FAVOR_VERSION " · made by <code>" + EscapeHtml(command) +
         "</code></footer>\n</body></html>\n";
}

}  // namespace favor::reports
