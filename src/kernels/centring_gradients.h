// What centring keys adds to the gradients of linear attention: unnormalised sums of centred keys
// k − mean carry exp(scale·q·mean), which depends on q and the mean; and a mean of the call's own
// keys depends on every key: dk ← dk + (d mean − Σ dk)/n.
#ifndef FAVOR_KERNELS_CENTRING_GRADIENTS_H_
#define FAVOR_KERNELS_CENTRING_GRADIENTS_H_

#include "kernels/linear_attention_backward.h"

namespace favor::kernels::cpu {

// The last step of LinearAttentionBackward, for arrays of any type, so for the reference too.
void CentringGradients(const LinearGradients& a, const Context& context);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CENTRING_GRADIENTS_H_
