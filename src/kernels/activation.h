// The function between the two products of a feed-forward layer, and its derivative.
#ifndef FAVOR_KERNELS_ACTIVATION_H_
#define FAVOR_KERNELS_ACTIVATION_H_

#include "favor/activation.h"
#include "kernels/backend.h"

namespace favor::kernels {

struct ActivationArguments {
  Activation f;
  ConstView x;
  View y;  // = f(x)
};

struct ActivationGradients {
  Activation f;
  ConstView x;
  ConstView grad_y;
  View grad_x;  // = grad_y·f'(x); may be grad_y
  View y{};     // = f(x); empty: not computed
};

namespace reference {
void Activate(const ActivationArguments& a, const Context& context);
void ActivateBackward(const ActivationGradients& a, const Context& context);
}  // namespace reference
namespace cpu {
void Activate(const ActivationArguments& a, const Context& context);
void ActivateBackward(const ActivationGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void Activate(const ActivationArguments& a, const Context& context);
void ActivateBackward(const ActivationGradients& a, const Context& context);
}  // namespace cuda

inline void Activate(const ActivationArguments& a, const Context& context) {
  Run<ActivationArguments>({.name = "activation",
                            .reference = reference::Activate,
                            .cpu = cpu::Activate,
                            .cuda = cuda::Activate},
                           a.y, a, context);
}
inline void ActivateBackward(const ActivationGradients& a, const Context& context) {
  Run<ActivationGradients>({.name = "activation",
                            .reference = reference::ActivateBackward,
                            .cpu = cpu::ActivateBackward,
                            .cuda = cuda::ActivateBackward,
                            .describe = OfGradients},
                           a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ACTIVATION_H_
