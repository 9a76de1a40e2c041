// Lines of a file, plain or compressed, one at a time.
#ifndef FAVOR_DATA_TEXT_LINES_H_
#define FAVOR_DATA_TEXT_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "io/byte_stream.h"

namespace favor::data {

// Calls visit(line, number) for each line, without its end (also that of Windows), numbered from 1.
template <class Visit>
void ForEachLine(const std::string& path, const Visit& visit) {
  io::ByteStream stream(path);
  std::string waiting;
  int64_t number = 0;
  const auto pass = [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line, ++number);
  };
  for (std::string_view piece = stream.Next(); !piece.empty(); piece = stream.Next()) {
    waiting += piece;
    size_t begin = 0;
    for (size_t end = waiting.find('\n'); end != std::string::npos;
         end = waiting.find('\n', begin)) {
      pass(std::string_view(waiting).substr(begin, end - begin));
      begin = end + 1;
    }
    waiting.erase(0, begin);
  }
  if (!waiting.empty()) pass(waiting);
}

}  // namespace favor::data

#endif  // FAVOR_DATA_TEXT_LINES_H_
