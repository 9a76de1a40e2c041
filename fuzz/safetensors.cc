// Any bytes as safetensors, with and without a checksum; what was read is written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "favor/error.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using favor::io::Safetensors;
  try {
    const Safetensors file =
        favor::io::ParseSafetensors(std::as_bytes(std::span(data, size)), "input");
    const std::string bytes = favor::io::SerializeSafetensors(file);
    const Safetensors again = favor::io::ParseSafetensors(std::as_bytes(std::span(bytes)), "again");
    if (again.entries.size() != file.entries.size()) std::abort();
  } catch (const favor::Error&) {
  }
  return 0;
}
