// The input is two bytes with the size of a model, the model (any bytes), and text to encode with
// it. A model that keeps text exactly must reproduce it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/sentencepiece.h"
#include "data/sentencepiece_model.h"
#include "favor/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view model = input.substr(2, static_cast<size_t>(data[0] | data[1] << 8));
  const std::string_view text = input.substr(2 + model.size());
  try {
    const auto vocabulary = favor::data::ParseSentencePiece(model, "model");
    const auto tokens = vocabulary->Encode(text, "text");
    for (const int32_t token : tokens) vocabulary->Show(token);
    const std::string again = vocabulary->Decode(tokens);
    if (favor::data::ParsePieceModel(model, "model").Exact() && again != text) std::abort();
  } catch (const favor::Error&) {
  }
  return 0;
}
