#include "attention/check_outputs.h"

#include "core/error_text.h"
#include "core/overlap.h"

namespace favor::attention {

void CheckOutputs(std::string_view who, const std::vector<NamedOutput>& outputs,
                  const std::vector<NamedArray>& inputs, bool reference) {
  const DataType type = reference ? DataType::kF64 : DataType::kF32;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, array, shape] = outputs[i];
    if (array.data() == nullptr || array.shape() != shape || array.type() != type ||
        array.device().type != DeviceType::kCpu) {
      Throw(ErrorCode::kInvalidData, who, "{}: given {} {} on {}, expected {} {} on the cpu", name,
            Name(array.type()), array.shape().ToString(), Name(array.device()), Name(type),
            shape.ToString());
    }
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
