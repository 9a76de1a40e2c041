#include "attention/check_outputs.h"

#include "attention/call.h"
#include "core/error_text.h"
#include "core/overlap.h"

namespace favor::attention {

void CheckOutputs(std::string_view who, const std::vector<NamedOutput>& outputs,
                  const std::vector<NamedArray>& inputs, const OutputPlace& place) {
  const std::string where = place.device == Device{} ? "the cpu" : Name(place.device);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, array, shape, or_type] = outputs[i];
    if (array.data() == nullptr || array.shape() != shape ||
        (array.type() != place.type && array.type() != or_type) || array.device() != place.device) {
      const std::string types = or_type && or_type != place.type
                                    ? fmt::format("{} or {}", Name(place.type), Name(*or_type))
                                    : std::string(Name(place.type));
      Throw(ErrorCode::kInvalidData, who, "{}: given {} {} on {}, expected {} {} on {}", name,
            Name(array.type()), array.shape().ToString(), Name(array.device()), types,
            shape.ToString(), where);
    }
    if (place.device != Device{}) CheckArrayOn(place.device, array, who, name);
    if (OverlapsItself(array))
      Throw(ErrorCode::kInvalidData, who, "{}: given an array whose elements share memory", name);
    for (const NamedArray& input : inputs) {
      if (Overlap(array, input.array))
        Throw(ErrorCode::kInvalidData, who, "{}: given memory that {} uses too", name, input.name);
    }
    for (size_t j = 0; j < i; ++j) {
      if (Overlap(array, outputs[j].array))
        Throw(ErrorCode::kInvalidData, who, "{}: given memory that {} uses too", name,
              outputs[j].name);
    }
  }
}

}  // namespace favor::attention
