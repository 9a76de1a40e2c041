// Any bytes as a PNG file: a picture or an Error, nothing else. Chunks also get valid checksums, so
// that the fuzzer reaches what they protect.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "favor/error.h"
#include "io/png.h"

namespace {

void Parse(const std::string& file) {
  try {
    favor::io::ParsePng(std::as_bytes(std::span(file)), "fuzz.png");
  } catch (const favor::Error&) {
  }
}

// A chunk: size (4 bytes), kind (4), data, checksum (4) of kind and data.
void RepairChecksums(std::string& file) {
  for (size_t at = 8; at + 12 <= file.size();) {
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(file[at + i]);
    if (size > file.size() - at - 12) return;
    const auto checksum =
        crc32(0, reinterpret_cast<const Bytef*>(file.data() + at + 4), static_cast<uInt>(size + 4));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + size + i] = static_cast<char>(checksum >> (24 - 8 * i));
    at += size + 12;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string file(data, data + size);
  Parse(file);
  RepairChecksums(file);
  Parse(file);
  return 0;
}
