// The function between the two products of a feed-forward layer, and its derivative.
#ifndef FAVOR_KERNELS_ACTIVATION_H_
#define FAVOR_KERNELS_ACTIVATION_H_

#include <cstdint>

#include "favor/activation.h"
#include "favor/context.h"

namespace favor::kernels {

// y = f(x), and grad_x = grad_y·f'(x), which may be in place.
namespace reference {
void Activate(Activation f, const double* x, int64_t count, const Context& context, double* y);
void ActivateBackward(Activation f, const double* x, const double* grad_y, int64_t count,
                      const Context& context, double* grad_x);
}  // namespace reference

namespace cpu {
void Activate(Activation f, const float* x, int64_t count, const Context& context, float* y);
void ActivateBackward(Activation f, const float* x, const float* grad_y, int64_t count,
                      const Context& context, float* grad_x);
}  // namespace cpu

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ACTIVATION_H_
