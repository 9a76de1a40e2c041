// Any bytes as an npy file: an array or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <span>

#include "favor/error.h"
#include "favor/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    favor::ParseNpy(std::as_bytes(std::span(data, size)), "fuzz.npy");
  } catch (const favor::Error&) {
  }
  return 0;
}
