// Any text as the config of a run; what was read is written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "favor/error.h"
#include "favor/train.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  favor::RunConfig config;
  try {
    favor::ReadRunConfig(std::string_view(reinterpret_cast<const char*>(data), size), "input",
                         config);
  } catch (const favor::Error&) {
    return 0;
  }
  const std::string text = favor::ToJson(config);
  favor::RunConfig again;
  favor::ReadRunConfig(text, "again", again);
  if (favor::ToJson(again) != text) std::abort();
  return 0;
}
