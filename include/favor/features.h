// Random features: a map φ with E[φ(x)·φ(y)] = K(x, y), so that attention with the kernel K costs
// O(L).
//
//   const favor::FeatureOptions options{.map = "positive", .features = 256};
//   favor::FeaturePlan plan = favor::FeaturePlan::Draw(options, heads, dim, seed);
//   favor::Tensor phi = favor::Features(plan, x, context);   // [heads, length, plan.width()]
//
// φ_r(x) = exp(E_r(x) + plan.LogNormalizer(head)) · g_r(x): an exponent and a bounded factor.
// Attention stabilises on the exponents; nothing here is stabilised.
#ifndef FAVOR_FEATURES_H_
#define FAVOR_FEATURES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/context.h"
#include "favor/maps.h"
#include "favor/tensor.h"

namespace favor {

namespace features {
struct DrawnFeatures;  // src/features/drawn_features.h
}

struct FeatureOptions {
  std::string map = "positive";           // a name of Maps()
  std::string projection = "orthogonal";  // a name of Projections()
  // m, the number of rows of ω; of poly-sum and poly-sketch: random columns of φ, which the degrees
  // from 2 on share. Other maps do not use it.
  int64_t features = 256;
  OmegaNorm omega_norm = OmegaNorm::kMap;
  bool shared_omega = false;  // one ω for all heads
  // ω is rounded to this type when it is drawn or given; whatever computes with the plan uses the
  // rounded numbers. A structured ω that is rounded to bf16 is dense from then on.
  OmegaType omega_type = OmegaType::kF32;
  std::optional<double> kernel_epsilon;  // added to f(ω·x) by generalized maps; default: the map's
  std::vector<double> oprf_a;  // A < 1/8 of `oprf`: empty (from dim alone), one, or one per head
  // Polynomials of s = x·y, for the maps poly-exact, poly-sum and poly-sketch: s^degree, or Σ_k c_k
  // s^k with the coefficients c_0, c_1, …, which may be negative. What attention does with kernels
  // that are not positive everywhere: docs/choosing_a_map.md.
  int64_t degree = 2;
  std::vector<double> coefficients;
  // Maps of the kernel exp(x·y)·k(x − y), in the units of x, the scaled rows: δ of local-laplace,
  // e^{−‖x−y‖₁/δ}, of local-gaussian, e^{−‖x−y‖²/(2δ²)}, and of local-ball, P(‖x − y + σg‖₁ ≤ δ)
  // with g ~ N(0, I) and σ = local_smoothing (0: δ/d).
  double local_width = 1, local_smoothing = 0;
  bool rotate = false;  // poly-sum: rows are mixed by a random rotation first; for sparse rows
  // Signed maps: attention counts a row whose denominator Σ_j φ(q)·φ(k_j) is below this one like a
  // row whose denominator is not positive: it is 0, and passes no gradients back.
  double least_denominator = 0;

  friend bool operator==(const FeatureOptions&, const FeatureOptions&) = default;
};

// The map called `name` in Maps(); throws kInvalidOption for an unknown name, naming the nearest.
const FeatureMapInfo& FindMap(std::string_view name);

struct ProjectionInfo {
  std::string_view name;
  std::string_view summary;
  std::string_view cost;  // cost of applying ω to one row
};
std::span<const ProjectionInfo> Projections();

// A map with its ω drawn: a pure function of (options, heads, dim, seed, redraw). Cheap to copy.
class FeaturePlan {
 public:
  static constexpr int64_t kMaxFeatures = int64_t{1} << 20;
  static constexpr int64_t kMaxDim = 4096;
  // The width of a map without ω: its state would otherwise be larger than the keys and values of
  // most sequences. `taylor` reaches it at dim 254.
  static constexpr int64_t kMaxRowWidth = int64_t{1} << 15;

  // Throws kInvalidOption for unknown names (naming the nearest), counts out of range and
  // combinations that would be biased: `regularized` needs √d norms, `oprf` needs χ norms, softmax
  // maps need a projection.
  static FeaturePlan Draw(const FeatureOptions& options, int64_t heads, int64_t dim, uint64_t seed,
                          uint64_t redraw = 0);
  // A plan with a given ω, [m, d] or [H, m, d], instead of a drawn one; options.features and
  // projection are ignored. ω of local-laplace and local-ball has 2m rows, frequencies behind
  // directions.
  static FeaturePlan WithOmega(const FeatureOptions& options, int64_t heads, ConstView omega);

  int64_t heads() const;
  int64_t dim() const;
  int64_t features() const;  // m; the width of a map without ω
  int64_t width() const;     // columns of φ: m · parts
  const FeatureMapInfo& map() const;
  const FeatureOptions& options() const;

  // ω as f32 [H, m, d] ([m, d] when shared; 2m rows as above): structured projections are written
  // out. Throws kInvalidOption for maps without ω.
  Tensor Omega() const;
  double LogNormalizer(int64_t head) const;
  double OprfA(int64_t head) const;  // 0 for other maps

  // E[φ(x)·φ(y)] for a query x and a key y of `dim` elements. Empty if no formula is known (√d
  // norms of maps other than the exponential ones, or a given ω).
  std::optional<double> Kernel(std::span<const double> x, std::span<const double> y) const;
  // E[(φ(x)·φ(y) − Kernel(x, y))²] over draws of ω; empty if no exact formula is known (Hadamard
  // and Givens rows, generalized maps under orthogonal rows, poly-sum of rotated rows).
  std::optional<double> ExpectedMse(std::span<const double> x, std::span<const double> y) const;
  // An upper bound of the probability that |φ(x)·φ(y) − Kernel(x, y)| ≥ error, by Chebyshev's
  // inequality: ExpectedMse/error², at most 1. Throws kInvalidOption unless error > 0.
  std::optional<double> ErrorProbability(std::span<const double> x, std::span<const double> y,
                                         double error) const;

 private:
  friend struct internal::Access;
  explicit FeaturePlan(std::shared_ptr<const features::DrawnFeatures> impl)
      : impl_(std::move(impl)) {}

  std::shared_ptr<const features::DrawnFeatures> impl_;
};

// Exponents and factors of rows x ([L, d], [H, L, d] or [B, H, L, d]), written as [..., L, width].
// f64 outputs are computed by the reference in double, f32 outputs by the fast kernels. x is not
// scaled here: attention passes q·d^(-1/4). All arrays lie on one device: on a GPU, they are f32
// and the context is on that GPU too.
void FeatureExponents(const FeaturePlan& plan, ConstView x, const Context& context, View exponents,
                      View factors, FeatureRole role = FeatureRole::kQuery);

// grad_x from the gradients with respect to exponents and factors; the same types (f64 or f32) and
// shapes.
void FeatureExponentsBackward(const FeaturePlan& plan, ConstView x, ConstView grad_exponents,
                              ConstView grad_factors, const Context& context, View grad_x,
                              FeatureRole role = FeatureRole::kQuery);

// Unstabilised φ, f64 on the CPU. Throws kInvalidData if a value exceeds the range of f64.
Tensor Features(const FeaturePlan& plan, ConstView x, const Context& context,
                FeatureRole role = FeatureRole::kQuery);

// The A that minimises the mean logarithm of oprf's second moment over all pairs of a query and a
// key, one A per head, from O(L) statistics; queries and keys are given as the map sees them
// (scaled). It must be the same for queries and keys, and frozen before a causal call.
std::vector<double> OptimalOprfA(ConstView queries, ConstView keys, const Context& context);
// The same from the mean of ‖x + y‖².
double OptimalOprfA(double mean_square_of_sum, int64_t dim);

}  // namespace favor

#endif  // FAVOR_FEATURES_H_
