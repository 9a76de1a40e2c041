#include "cli/text_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace favor::cli {

void WriteOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "writing to standard output");
}

std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f) {
      cell += fmt::format("\\x{:02x}", byte);
    } else {
      cell += c;
    }
  }
  return cell;
}

TextOutput::TextOutput(const std::string& path) {
  if (!path.empty()) file_.emplace(path);
}

void TextOutput::Write(std::string_view text) {
  constexpr size_t kMostWaiting = 1 << 16;
  waiting_ += text;
  if (waiting_.size() >= kMostWaiting) Flush();
}

void TextOutput::Finish() {
  Flush();
  if (file_) file_->Commit();
}

void TextOutput::Flush() {
  if (file_) {
    file_->Write(waiting_);
  } else {
    WriteOut(waiting_);
  }
  waiting_.clear();
}

}  // namespace favor::cli
