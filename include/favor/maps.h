// The feature maps that favor knows.
#ifndef FAVOR_MAPS_H_
#define FAVOR_MAPS_H_

#include <optional>
#include <span>
#include <string_view>

namespace favor {

// The law of the lengths of ω's rows.
enum class OmegaNorm {
  kChi,    // χ(d), as of a Gaussian vector: unbiased for the softmax kernel
  kSqrtD,  // √d exactly: the regularized softmax kernel, smaller variance, small known bias
};
std::string_view Name(OmegaNorm norm);  // "chi", "sqrt-d"

struct FeatureMapInfo {
  std::string_view name;
  std::string_view formula;  // of φ_r, without the normaliser
  std::string_view kernel;   // "softmax", "regularized softmax", "gaussian", "generalized"
  bool nonnegative;          // φ ≥ 0 always: denominators of attention cannot vanish
  int parts;                 // columns of φ per row of ω: 1 or 2
  std::optional<double> default_epsilon;  // empty: takes none
};
std::span<const FeatureMapInfo> Maps();  // in order of their names

}  // namespace favor

#endif  // FAVOR_MAPS_H_
