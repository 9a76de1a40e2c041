// What is known in closed form about φ(x)·φ(y) = (1/m) Σ_r X_r: the moments of one term X and of
// two terms that share an orthogonal block (docs/mathematics.md), and the special functions and
// quadrature behind them.
#ifndef FAVOR_KERNELS_THEORY_H_
#define FAVOR_KERNELS_THEORY_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "favor/maps.h"

namespace favor::kernels {

// What a kernel depends on: the inner products of a pair of vectors.
struct Pair {
  double xx, yy, xy;      // ‖x‖², ‖y‖², x·y
  double squares = 0;     // Σ x_i² y_i²; row maps only
  double difference = 0;  // ‖x − y‖₁; local maps only

  double SumSquare() const { return xx + 2 * xy + yy; }         // ‖x + y‖²
  double DifferenceSquare() const { return xx - 2 * xy + yy; }  // ‖x − y‖²
};

// The angle between the two vectors; a zero vector is at a right angle to everything.
double Angle(const Pair& pair);

// The distribution of a single row of ω, and the map's constants.
struct Law {
  int64_t dim;        // elements of the vectors
  int64_t omega_dim;  // elements of ω's rows before truncation: Hadamard and Givens pad them
  OmegaNorm norm;
  double epsilon = 0;
  double oprf_a = 0;
  double local_width = 1;  // δ of local maps
};

// Moments of X. Empty: no formula.
struct Moments {
  std::optional<double> mean;    // E X: the kernel
  std::optional<double> second;  // E X²
  std::optional<double> cross;   // E X₁X₂ for two rows of one Haar block
};

// X = e^{log_scale} · e^{ω·z}, with w = ‖z‖²/2.
Moments ExponentialMoments(double log_scale, double w, const Law& law);
// X = e^{log_scale} · cosh(ω·z), with w = ‖z‖²/2; or cos instead of cosh, with w = −‖z‖²/2.
Moments EvenMoments(double log_scale, double w, const Law& law);

// E e^{ω·z} for rows of length √d: Σ_k w^k/k! Π_{i<k} d/(d+2i), w = ±‖z‖²/2 (minus: E cos(ω·z)).
// Its ratio to e^w is SMREG/SM. Empty if w is so far below 0 that the sum cancels.
std::optional<long double> SphericalMean(double w, int64_t dim);

// E e^{(ω₁+ω₂)·z} for two orthogonal rows of χ(d) length; w as above.
long double OrthogonalChiMean(double w, int64_t dim);

// E h(u, v) for (u, v) jointly normal with E u² = xx, E v² = yy, E uv = xy. Polar coordinates in
// the plane, cut at the rays u = 0 and v = 0, Gauss–Legendre on each piece: spectral accuracy for
// functions that are smooth on either side of 0 and turn a few times at most within the mass.
double BivariateMean(const Pair& pair, const std::function<double(double, double)>& h);

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_THEORY_H_
