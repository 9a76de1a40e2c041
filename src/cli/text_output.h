// Text that goes to a file, which appears whole or not at all, or to standard output as it comes.
#ifndef FAVOR_CLI_TEXT_OUTPUT_H_
#define FAVOR_CLI_TEXT_OUTPUT_H_

#include <optional>
#include <string>
#include <string_view>

#include "io/atomic_file.h"

namespace favor::cli {

// Writes to standard output at once; throws if that fails.
void WriteOut(std::string_view text);

// A name as a cell of a table: whole, with tabs, line ends and other control characters escaped.
std::string Cell(std::string_view text);

class TextOutput {
 public:
  explicit TextOutput(const std::string& path);  // empty: standard output

  void Write(std::string_view text);
  void Finish();  // without it, a file is not changed

 private:
  void Flush();

  std::optional<io::AtomicFile> file_;
  std::string waiting_;
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_TEXT_OUTPUT_H_
