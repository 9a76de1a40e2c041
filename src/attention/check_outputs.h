// Checks of the caller's arrays that results are written to.
#ifndef FAVOR_ATTENTION_CHECK_OUTPUTS_H_
#define FAVOR_ATTENTION_CHECK_OUTPUTS_H_

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
  Shape shape;  // the shape that it must have
};

// Throws unless every output has its shape and type (f64 with `reference`, else f32), lies on the
// CPU, and overlaps neither itself nor an input nor another output.
void CheckOutputs(std::string_view who, const std::vector<NamedOutput>& outputs,
                  const std::vector<NamedArray>& inputs, bool reference);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_CHECK_OUTPUTS_H_
