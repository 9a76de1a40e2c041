#include "io/npy_bytes.h"

#include "core/error_text.h"

namespace favor::io {
namespace {

NpyLayout LayoutOf(InputFile& file) {
  if (!file.Size()) {
    Throw(ErrorCode::kIo, Printable(file.path()),
          "given a device, pipe or folder, expected a file");
  }
  std::string start(kNpyStartBytes, '\0');
  start.resize(file.Read(std::as_writable_bytes(std::span(start))));
  return ParseNpyLayout(start, *file.Size(), file.path(), NpyElements::kBytes);
}

}  // namespace

NpyBytes::NpyBytes(const std::string& path) : file_(path), layout_(LayoutOf(file_)) {}

void NpyBytes::Read(int64_t first, std::span<uint8_t> out) const {
  file_.ReadAt(static_cast<int64_t>(layout_.data_begin) + first, std::as_writable_bytes(out));
}

}  // namespace favor::io
