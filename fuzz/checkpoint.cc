// Any bytes as a checkpoint: a model's shapes are checked before anything is built from them. What
// parses as safetensors gets a valid checksum, so that the fuzzer reaches what the checksum
// protects.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "favor/error.h"
#include "io/safetensors.h"
#include "models/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string repaired = favor::io::SerializeSafetensors(
        favor::io::ParseSafetensors(std::as_bytes(std::span(data, size)), "input"));
    const favor::models::Checkpoint checkpoint(repaired, "input");
    checkpoint.CheckShape("embedding.weight", {checkpoint.model().vocab, checkpoint.model().width});
  } catch (const favor::Error&) {
  }
  return 0;
}
