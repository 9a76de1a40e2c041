// The regularized softmax map SMREG⁺ (Performers, Theorem 1): the positive map with rows of ω of
// length √d exactly. Its kernel is below the softmax kernel by a factor 1 − w²/d + O(d⁻²), w =
// ‖x+y‖²/2.
#ifndef FAVOR_KERNELS_MAPS_REGULARIZED_H_
#define FAVOR_KERNELS_MAPS_REGULARIZED_H_

#include "kernels/map.h"
#include "kernels/maps/positive.h"

namespace favor::kernels {

struct Regularized : Positive {
  // Hides the traits of the base: a map is identified by its own.
  // cppcheck-suppress duplInheritedMember
  static constexpr MapTraits kTraits{.info = {.name = "regularized",
                                              .formula = "exp(ω·x − |x|²/2), |ω| = √d",
                                              .kernel = KernelFamily::kRegularizedSoftmax,
                                              .nonnegative = true,
                                              .parts = 1,
                                              .default_epsilon = {}},
                                     .norm_slope = -1,
                                     .only_norm = OmegaNorm::kSqrtD};
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_REGULARIZED_H_
