// What a feature map is. Each file of kernels/maps/ holds one: a struct of static members
//
//   static constexpr MapTraits kTraits        name, formula, sign, rules
//   static constexpr bool kFlat                e(u) is 0: the exponent is the same for all features
//   Exponent(u, part, epsilon), ExponentSlope  e(u) and de/du
//   Factor(u, part, epsilon), FactorSlope      g(u) and dg/du
//   Theory(pair, law)                          moments of φ(x)·φ(y): kernel and variance
//
// where u = B·ω_r·x, and the exponent of the feature is E_r(x) = e(u) + norm_slope·‖x‖²/2 +
// A·‖ω_r‖² (A is 0 except for maps that take one; B = √(1 − 4A)). A map with two parts has 2m
// features, the second part after the first. Each formula is written once, in the map's file, and
// used by reference, CPU and GPU.
//
// A masked map (derived from MaskedMap) has 2m rows of ω: the exponents come from the first m, the
// factors from the others, which are frequencies of a mask of x − y.
//
// A row map (derived from RowMap) has no ω: it makes all of its factors from the scaled row itself
// and from tables, and its exponents are 0. Its kernel is a polynomial of x·y (polynomial_shape.h).
//
//   kCoefficients                              those of its polynomial; none: the options say it
//   kLayout                                    what it draws
//   Factors(x, tables, factors)                [dim] → [width]
//   Backward(x, tables, grad_factors, grad_x)  back
//   UnitMse(pair, degree, columns, …)          E(φ(x)·φ(y) − s^k)² of a block with c_k = 1
//
// Monomials and sketches have a second form, written in vectors: cpu/simd/monomials-inl.h and
// cpu/simd/sketch-inl.h.
#ifndef FAVOR_KERNELS_MAP_H_
#define FAVOR_KERNELS_MAP_H_

#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>

#include "favor/maps.h"
#include "kernels/monomials.h"
#include "kernels/portable.h"
#include "kernels/theory.h"

namespace favor::kernels {

struct MapTraits {
  FeatureMapInfo info;
  double norm_slope;                     // ∂E/∂(‖x‖²/2)
  double normalizer = 1;                 // φ carries normalizer/√m
  bool has_factor = false;               // g is not 1
  bool may_skip_projection = false;      // u = x makes sense
  std::optional<OmegaNorm> only_norm{};  // the one length of ω's rows for which the map is right
};

// Maps of the form φ = exp(E): the factor is 1.
struct ExponentialMap {
  static constexpr bool kFlat = false;  // E does not depend on u
  template <class T>
  FAVOR_HOST_DEVICE static T Factor(T, int, T) {
    return T(1);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FactorSlope(T, int, T) {
    return T(0);
  }
};

// Exponential maps whose exponent is linear in u.
struct LinearExponentMap : ExponentialMap {
  template <class T>
  FAVOR_HOST_DEVICE static T Exponent(T u, int, T) {
    return u;
  }
  template <class T>
  FAVOR_HOST_DEVICE static T ExponentSlope(T, int, T) {
    return T(1);
  }
};

// Maps with the factors [sin u ; cos u] and an exponent that does not depend on u.
struct TrigonometricMap {
  static constexpr bool kFlat = true;
  template <class T>
  FAVOR_HOST_DEVICE static T Exponent(T, int, T) {
    return T(0);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T ExponentSlope(T, int, T) {
    return T(0);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T Factor(T u, int part, T) {
    return part == 0 ? Sine(u) : Cosine(u);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FactorSlope(T u, int part, T) {
    return part == 0 ? Cosine(u) : -Sine(u);
  }
};

// Positive features times random Fourier features of a mask k(x − y): e^{ω_r·x}·[sin f_r·x ; cos
// f_r·x], one pair (ω_r, f_r) for each r, K = exp(x·y)·k(x − y). One 1/m for both: pairs vary less
// than all products of ω and f would with as many features.
struct MaskedMap : TrigonometricMap {
  static constexpr bool kFlat = false;
  template <class T>
  FAVOR_HOST_DEVICE static T Exponent(T u, int part, T epsilon) {
    return LinearExponentMap::Exponent(u, part, epsilon);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T ExponentSlope(T u, int part, T epsilon) {
    return LinearExponentMap::ExponentSlope(u, part, epsilon);
  }
};
template <class Map>
inline constexpr bool kIsMasked = std::is_base_of_v<MaskedMap, Map>;

// Traits of a masked map.
constexpr MapTraits MaskedTraits(std::string_view name, std::string_view formula) {
  return {.info = {.name = name,
                   .formula = formula,
                   .kernel = KernelFamily::kLocal,
                   .nonnegative = false,
                   .parts = 2,
                   .default_epsilon = {},
                   .takes_width = true},
          .norm_slope = -1,
          .has_factor = true,
          .only_norm = OmegaNorm::kChi};
}

// Base of row maps: features are factors.
struct RowMap {
  static constexpr bool kFlat = true;
  static constexpr std::array<double, 0> kCoefficients{};
};
template <class Map>
inline constexpr bool kIsRowMap = std::is_base_of_v<RowMap, Map>;

// Row maps whose columns are monomials: exact, nothing is drawn.
struct MonomialMap : RowMap {
  static constexpr TableLayout kLayout = TableLayout::kNone;

  template <class T>
  FAVOR_HOST_DEVICE static void Factors(const T* x, const RowMapTables& tables, T* factors) {
    MonomialColumns(x, tables, factors);
  }
  template <class T>
  FAVOR_HOST_DEVICE static void Backward(const T* x, const RowMapTables& tables,
                                         const T* grad_factors, T* grad_x) {
    for (int64_t i = 0; i < tables.dim; ++i) grad_x[i] = T(0);
    MonomialColumnsBackward(x, tables, grad_factors, grad_x);
  }
  static std::optional<double> UnitMse(const Pair&, int, int64_t, int64_t, bool) { return 0.0; }
};

// Traits of a row map.
constexpr MapTraits PolynomialTraits(std::string_view name, std::string_view formula,
                                     bool is_random) {
  return {.info = {.name = name,
                   .formula = formula,
                   .kernel = KernelFamily::kPolynomial,
                   .nonnegative = false,
                   .parts = 1,
                   .default_epsilon = {},
                   .has_omega = false,
                   .is_random = is_random},
          .norm_slope = 0,
          .has_factor = true};
}

constexpr double kGeneralizedEpsilon = 1e-3;  // the default of the published code

// φ = f(u) + ε. The map gives Function, FunctionSlope, ExactKernel(pair) = E f(u)f(v) and Mean(s) =
// E f(u) for u ~ N(0, s²).
template <class Map>
struct GeneralizedMap {
  static constexpr bool kFlat = true;
  template <class T>
  FAVOR_HOST_DEVICE static T Exponent(T, int, T) {
    return T(0);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T ExponentSlope(T, int, T) {
    return T(0);
  }
  template <class T>
  FAVOR_HOST_DEVICE static T Factor(T u, int, T epsilon) {
    return Map::Function(u) + epsilon;
  }
  template <class T>
  FAVOR_HOST_DEVICE static T FactorSlope(T u, int, T) {
    return Map::FunctionSlope(u);
  }

  // K_ε = K₀ + ε(E f(u) + E f(v)) + ε²; the second moment by quadrature.
  static Moments Theory(const Pair& pair, const Law& law) {
    if (law.norm != OmegaNorm::kChi) return {};
    const double epsilon = law.epsilon;
    const double means = Map::Mean(std::sqrt(pair.xx)) + Map::Mean(std::sqrt(pair.yy));
    return {.mean = Map::ExactKernel(pair) + epsilon * means + epsilon * epsilon,
            .second = BivariateMean(pair,
                                    [&](double u, double v) {
                                      const double x = (Map::Function(u) + epsilon) *
                                                       (Map::Function(v) + epsilon);
                                      return x * x;
                                    }),
            .cross = std::nullopt};
  }
};

// Traits of a generalized map: everything but name, formula and sign is the same for all.
constexpr MapTraits GeneralizedTraits(std::string_view name, std::string_view formula,
                                      bool nonnegative) {
  return {.info = {.name = name,
                   .formula = formula,
                   .kernel = KernelFamily::kGeneralized,
                   .nonnegative = nonnegative,
                   .parts = 1,
                   .default_epsilon = kGeneralizedEpsilon},
          .norm_slope = 0,
          .has_factor = true,
          .may_skip_projection = true};
}

// E f(u)f(v) and E f(u) by quadrature, for the maps without a closed form.
inline double QuadratureKernel(const Pair& pair, double (*function)(double)) {
  return BivariateMean(pair, [&](double u, double v) { return function(u) * function(v); });
}
inline double QuadratureMean(double s, double (*function)(double)) {
  return BivariateMean({s * s, 0, 0}, [&](double u, double) { return function(u); });
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAP_H_
