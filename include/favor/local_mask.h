// Masks of x − y as expectations of cosines: k(r) = E[g(f)·cos(f·r)] over random frequencies f with
// weights g. The maps local-laplace and local-ball are made of them; local-gaussian needs none.
#ifndef FAVOR_LOCAL_MASK_H_
#define FAVOR_LOCAL_MASK_H_

#include <cstdint>
#include <span>

namespace favor {

// The Fourier transform of the indicator of the L1 ball ‖r‖₁ ≤ δ at f, divided by the ball's
// volume: Φ(w) = E Π_j cos(w_j u_j) with w = δf and u uniform on {u ≥ 0, Σu ≤ 1}. Within [−1, 1],
// and right for frequencies that are 0 or equal to each other. Below 8 dimensions by a matrix
// exponential, from there on by quadrature of the inverse Laplace transform.
double L1BallTransform(std::span<const double> w);

// The smoothed indicator P(‖r + σg‖₁ ≤ δ), g ~ N(0, I), has the density of its transform cut off by
// e^{−σ²‖f‖²/2}. Frequencies f ~ N(0, I/σ²) have the weight BallWeight(…)·Φ(δf): the ball's volume
// over (2π)^{d/2}σ^d.
double BallWeight(int64_t dim, double width, double smoothing);

// The sharp mask |i − j| ≤ window of whole-numbered places i, j: f in [−π, π] with a density in
// proportion to |D(f)|, D(f) = sin((window + ½)f)/sin(f/2), and the weight Z·sign D(f).
double DirichletKernel(int64_t window, double frequency);
double DirichletWeight(int64_t window);  // Z = (1/2π) ∫ |D|

}  // namespace favor

#endif  // FAVOR_LOCAL_MASK_H_
