// y = x·Wᵀ + b.
#ifndef FAVOR_LAYERS_LINEAR_H_
#define FAVOR_LAYERS_LINEAR_H_

#include <string>

#include "favor/context.h"
#include "kernels/matmul.h"
#include "layers/parameter.h"

namespace favor::layers {

class Linear {
 public:
  // "<name>.weight" [out, in] and "<name>.bias" [out]. Inputs of variance 1 give outputs of
  // variance gain² at first.
  Linear(ParameterSet& parameters, const std::string& name, int64_t in, int64_t out,
         double gain = 1);

  // x [rows, in], y [rows, out]; `then` is an operation on y.
  void Forward(const Context& context, ConstView x, View y,
               const kernels::MatmulEpilogue& then = {}) const;
  // Adds to the gradients of W and b; grad_x = grad_y·W, or += with `add`.
  void Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x,
                bool add = false);
  // The two parts of Backward; `then` is an operation on grad_x.
  void BackwardInput(const Context& context, ConstView grad_y, View grad_x, bool add,
                     const kernels::MatmulEpilogue& then = {}) const;
  void BackwardWeights(const Context& context, ConstView x, ConstView grad_y);

  Parameter& weight() const { return *weight_; }
  Parameter& bias() const { return *bias_; }

 private:
  Parameter *weight_, *bias_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_LINEAR_H_
