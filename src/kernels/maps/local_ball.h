// Positive features times those of the smoothed indicator P(‖x − y + σg‖₁ ≤ δ), g ~ N(0, I):
// frequencies f ~ N(0, I/σ²), each with the importance weight C·Φ(δf) (favor/local_mask.h), whose
// root both sides carry, and whose sign the keys. The weights grow with the dimension like
// (2.17/c)^d for σ = cδ/d: usable up to about d = 4.
#ifndef FAVOR_KERNELS_MAPS_LOCAL_BALL_H_
#define FAVOR_KERNELS_MAPS_LOCAL_BALL_H_

#include "kernels/map.h"

namespace favor::kernels {

struct LocalBall : MaskedMap {
  static constexpr MapTraits kTraits =
      MaskedTraits("local-ball", "exp(ω·x − |x|²/2)·√|g|·[sin f·x ; cos f·x], g the weight of f");

  static Moments Theory(const Pair&, const Law&) { return {}; }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAPS_LOCAL_BALL_H_
