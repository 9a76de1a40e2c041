// Chernoff's bound on the tails of an estimate with rows of ω of length √d.
#ifndef FAVOR_EXPERIMENTS_TAIL_BOUND_H_
#define FAVOR_EXPERIMENTS_TAIL_BOUND_H_

#include <cstdint>
#include <functional>

namespace favor::experiments {

// The Legendre transform L(a) = sup_θ θa − log E e^{θX} of one term X of an estimate, and the θ
// where it is attained.
struct LegendreTransform {
  double rate = 0;        // L(a); infinite if X never exceeds a
  double theta = 0;       // 0 if the rate is infinite
  double log_moment = 0;  // log E e^{θX}
};

// Of X = term(u), where u is one coordinate of a uniform direction in `dim` dimensions and `term`
// is largest at 1 or −1; `level` is above the mean of X.
LegendreTransform TransformOf(int64_t dim, const std::function<double(double)>& term, double level);

// Bounds on P[(X₁ + … + X_m)/m > a]: e^{−mL} for independent rows.
double ChernoffBound(const LegendreTransform& transform, int64_t features);
// The share of that bound which is left for orthogonal rows: d/(d + 2) + 2ρ/(d + 2), where ρ is the
// share of E e^{θ(X₁ + … + X_m)} in which at most one row takes part. `at_zero` is term(0).
double OrthogonalShare(const LegendreTransform& transform, int64_t dim, int64_t features,
                       double at_zero);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_TAIL_BOUND_H_
