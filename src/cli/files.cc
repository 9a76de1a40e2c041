#include "cli/files.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error_text.h"
#include "core/json.h"
#include "favor/npy.h"
#include "io/atomic_file.h"

namespace favor::cli {

int64_t Heads(const Shape& shape) { return shape.rank() >= 3 ? shape[shape.rank() - 3] : 1; }

Tensor ReadMaskedRows(const std::string& path, bool masked) {
  Tensor rows = ReadNpy(path);
  if (rows.shape().rank() < 2) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given shape {}, expected [L, d], [H, L, d] or [B, H, L, d]", rows.shape().ToString());
  }
  if (rows.shape().Elements() == 0) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given an empty array of shape {}, expected at least one row", rows.shape().ToString());
  }
  if (!masked && !AllFinite(rows))
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given NaN or infinity, expected finite values");
  return rows;
}

Tensor ReadRows(const std::string& path) { return ReadMaskedRows(path, /*masked=*/false); }

void CheckFiles(std::string_view who, const std::vector<std::string>& outputs,
                const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  // Whether both names are the same file; devices such as /dev/null may be used twice.
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code ignored;
    if (fs::exists(a, ignored) && !fs::is_regular_file(a, ignored)) return false;
    return fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    for (size_t j = 0; j < i; ++j) {
      if (!outputs[j].empty() && same(outputs[i], outputs[j])) {
        Throw(ErrorCode::kInvalidOption, who, "two outputs go to the same file '{}'",
              Printable(outputs[i]));
      }
    }
    for (const std::string& input : inputs) {
      if (!input.empty() && same(outputs[i], input)) {
        Throw(ErrorCode::kInvalidOption, who, "the output '{}' would overwrite an input",
              Printable(outputs[i]));
      }
    }
    // A pipe is not opened to try it: its reader would see an end of file.
    std::error_code ignored;
    if (!fs::is_fifo(outputs[i], ignored)) io::AtomicFile probe(outputs[i]);
  }
}

void PrintJson(const Json& value) {
  // Paths may hold bytes that are not valid UTF-8.
  fmt::print("{}\n", value.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace favor::cli
