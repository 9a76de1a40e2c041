// Any bytes as a state file: a state or an Error, nothing else. What parses as safetensors gets a
// valid checksum, so that the fuzzer reaches what the checksum protects.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "favor/error.h"
#include "favor/state.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const std::string repaired =
        favor::io::SerializeSafetensors(favor::io::ParseSafetensors(bytes, "fuzz"));
    favor::AttentionState::Parse(std::as_bytes(std::span(repaired)), "fuzz");
  } catch (const favor::Error&) {
  }
  return 0;
}
