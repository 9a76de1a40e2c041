// Checks of the caller's arrays that results are written to.
#ifndef FAVOR_ATTENTION_CHECK_OUTPUTS_H_
#define FAVOR_ATTENTION_CHECK_OUTPUTS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "favor/tensor.h"

namespace favor::attention {

struct NamedArray {
  std::string_view name;
  ConstView array;
};
struct NamedOutput {
  std::string_view name;
  View array;
  Shape shape;                           // the shape that it must have
  std::optional<DataType> or_type = {};  // another type that it may have
};
struct OutputPlace {
  DataType type;
  Device device;
};

// Throws unless every output has its shape and type, lies on the device (on a GPU with contiguous
// rows), and overlaps neither itself nor an input nor another output.
void CheckOutputs(std::string_view who, const std::vector<NamedOutput>& outputs,
                  const std::vector<NamedArray>& inputs, const OutputPlace& place);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_CHECK_OUTPUTS_H_
