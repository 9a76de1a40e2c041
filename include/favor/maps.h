// The feature maps of favor.
#ifndef FAVOR_MAPS_H_
#define FAVOR_MAPS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "favor/names.h"

namespace favor {

// The law of the lengths of ω's rows.
enum class OmegaNorm : uint8_t {
  kMap,    // what the map needs; kChi if both are right
  kChi,    // χ(d), like the length of a Gaussian vector: unbiased for the softmax kernel
  kSqrtD,  // √d exactly: the regularized softmax kernel, smaller variance, small known bias
};
template <>
inline constexpr auto kNamesOf<OmegaNorm> = std::to_array<std::string_view>({"map", "chi",
                                                                             "sqrt-d"});

// The numbers that ω is made of. Tensor cores of a GPU multiply bf16 as it is, and f32 in parts.
enum class OmegaType : uint8_t { kF32, kBF16 };
template <>
inline constexpr auto kNamesOf<OmegaType> = std::to_array<std::string_view>({"f32", "bf16"});

// What E[φ(x)·φ(y)] is.
enum class KernelFamily : uint8_t {
  kSoftmax,             // exp(x·y)
  kRegularizedSoftmax,  // a little less: rows of ω have length √d
  kGaussian,            // exp(−‖x − y‖²/2)
  kGeneralized,         // the mean of f(ω·x)·f(ω·y), f any function
  kPolynomial,          // a polynomial of x·y
  kLocal,               // exp(x·y) times a function of x − y that is small if they are far apart
};
template <>
inline constexpr auto kNamesOf<KernelFamily> = std::to_array<std::string_view>(
    {"softmax", "regularized softmax", "gaussian", "generalized", "polynomial", "local"});

// Which side of a kernel a row is on. Only polynomials with negative coefficients and local-ball
// tell the two apart: some of their features change their sign for keys.
enum class FeatureRole : uint8_t { kQuery, kKey };
template <>
inline constexpr auto kNamesOf<FeatureRole> = std::to_array<std::string_view>({"query", "key"});

struct FeatureMapInfo {
  std::string_view name;
  std::string_view formula;  // formula of φ_r, without the normaliser
  KernelFamily kernel;
  bool nonnegative;  // φ ≥ 0 always: denominators of attention cannot vanish
  int parts;         // columns of φ per row of ω: 1 or 2
  std::optional<double> default_epsilon;  // empty: the map takes no epsilon
  bool takes_a = false;                   // takes the constant A of FeatureOptions::oprf_a
  // False: features are products of elements of the row; poly-sum and poly-sketch draw which.
  bool has_omega = true;
  bool takes_width = false;  // takes FeatureOptions::local_width
  bool is_random = true;     // false: nothing is drawn, and φ(x)·φ(y) is the kernel
};
std::span<const FeatureMapInfo> Maps();  // in order of their names

}  // namespace favor

#endif  // FAVOR_MAPS_H_
