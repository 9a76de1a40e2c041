// Whether measured figures agree with what a text says of them. Verdicts are computed from the
// figures and their standard errors, never written by hand.
#ifndef FAVOR_EXPERIMENTS_VERDICT_H_
#define FAVOR_EXPERIMENTS_VERDICT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "favor/names.h"

namespace favor::experiments {

enum class Verdict : uint8_t {
  kHolds,
  kFails,
  kNotTested,  // the figures are too uncertain to tell
};

// A figure with its standard error; 0: it was computed, not sampled.
struct Measured {
  double value = 0, standard_error = 0;
  // Of the standard error: few samples do not know their own spread.
  double freedom = std::numeric_limits<double>::infinity();

  std::string ToText() const;  // "0.1234 ± 0.0021", with the digits that the error leaves
};
// Their quotient, with the error of independent figures.
Measured Quotient(const Measured& a, const Measured& b);
Measured Difference(const Measured& a, const Measured& b);

struct Comparison {
  Measured measured;
  double expected = 0;

  // Distance in standard errors, of few samples the distance that is as rare for a normal law;
  // infinite if a computed figure differs.
  double Z() const;
  // The standard error as a share of the larger of both figures: a prediction that is far too small
  // does not make a measurement look coarse.
  double RelativeError() const;
};

// How many standard errors all of so many figures stay within in 999 runs of 1000, if each is
// normal and nothing is wrong.
double Threshold(size_t figures);

// "20 figures with errors up to 1.3 %, largest |z| 2.3, threshold 4.1"
std::string LargestZ(std::span<const Comparison> comparisons);
// "24 figures; the worst 0.512 ± 0.010 where at most 0.5 is claimed"
enum class Bound : uint8_t { kMost, kLeast };
std::string NearestToBound(std::span<const Comparison> comparisons, Bound bound);

// Is every figure what is expected? A figure whose relative error is above `precision` tells
// nothing, and the claim is not tested, unless another one clearly differs; computed figures may
// differ by that share.
Verdict AllEqual(std::span<const Comparison> comparisons, double precision);

// Is every figure at most, or at least, what is expected? One that is clearly beyond decides
// against it. Not tested if one of the others is too near to tell, unless its standard error is at
// most `precision` times the expected figure: a bound may be sharp.
Verdict AllAtMost(std::span<const Comparison> comparisons, double precision = 0);
Verdict AllAtLeast(std::span<const Comparison> comparisons, double precision = 0);

// What a text claims, and what was measured.
struct Claim {
  std::string source;     // "Theorem 2, as printed"
  std::string statement;  // what it says
  std::string measured;   // the figures that decide
  Verdict verdict = Verdict::kNotTested;
};

}  // namespace favor::experiments

namespace favor {
template <>
inline constexpr auto kNamesOf<experiments::Verdict> =
    std::to_array<std::string_view>({"holds", "does not hold", "not tested"});
}  // namespace favor

#endif  // FAVOR_EXPERIMENTS_VERDICT_H_
