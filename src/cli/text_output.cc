#include "cli/text_output.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace favor::cli {

void WriteOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "writing to standard output");
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
