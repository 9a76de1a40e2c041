// Any bytes as a state file: a state or an Error, nothing else. Seeds without a checksum let it
// reach what one protects.
#include <cstddef>
#include <cstdint>
#include <span>

#include "favor/error.h"
#include "favor/state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    favor::AttentionState::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const favor::Error&) {
  }
  return 0;
}
