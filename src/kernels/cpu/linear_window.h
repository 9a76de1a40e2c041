// Linear attention to keys within a window around the query's place, or beyond it; and its
// gradients (AttentionProblem::window). Cost does not depend on the window: its keys are the end of
// one block of keys and the beginning of the next, and both are sums that only ever grow (van
// Herk), so nothing is subtracted. Narrow windows are computed as a band instead.
#ifndef FAVOR_KERNELS_CPU_LINEAR_WINDOW_H_
#define FAVOR_KERNELS_CPU_LINEAR_WINDOW_H_

#include "kernels/linear_attention_backward.h"

namespace favor::kernels::cpu {

void LinearWindow(const LinearArguments& a, const Context& context);
void LinearWindowBackward(const LinearGradients& a, const Context& context);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_LINEAR_WINDOW_H_
