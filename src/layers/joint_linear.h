// Linear layers that read the same rows, as one product: their weights follow each other in memory,
// and so do the columns of their results.
#ifndef FAVOR_LAYERS_JOINT_LINEAR_H_
#define FAVOR_LAYERS_JOINT_LINEAR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "favor/context.h"
#include "layers/named_columns.h"
#include "layers/parameter.h"

namespace favor::layers {

class JointLinear {
 public:
  // For each part "<name>.weight" [columns, in] and "<name>.bias" [columns], as of a Linear.
  JointLinear(ParameterSet& parameters, const std::vector<NamedColumns>& parts, int64_t in);

  // x [rows, in], y [rows, columns of all parts from part `first` on].
  void Forward(const Context& context, ConstView x, View y, size_t first = 0) const;
  // Adds to the gradients of these parts; grad_x = grad_y·W.
  void Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x,
                size_t first = 0);

 private:
  std::vector<Parameter*> weights_, biases_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_JOINT_LINEAR_H_
