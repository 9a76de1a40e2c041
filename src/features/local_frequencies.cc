#include "features/local_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "core/error_text.h"
#include "favor/local_mask.h"
#include "features/projection.h"
#include "kernels/project.h"

namespace favor::features {
namespace {

constexpr double kLeastWidth = 1e-3, kMostWidth = 1e6;
constexpr double kLargestWeight = 1e12;    // variances in proportion to it
constexpr double kLargestFrequency = 5e8;  // within what a given ω may hold
// δf of local-ball: a transform takes a time in proportion to it.
constexpr double kLargestBallFrequency = 1e3;
constexpr std::string_view kBall = "local-ball";

// σ: the options', or δ/d.
double Smoothing(const FeatureOptions& options, int64_t dim) {
  return options.local_smoothing > 0 ? options.local_smoothing
                                     : options.local_width / static_cast<double>(dim);
}

}  // namespace

void CheckLocal(const FeatureOptions& options, const kernels::MapEntry& map) {
  const FeatureOptions standard;
  const FeatureMapInfo& info = map.traits->info;
  if (!info.takes_width && options.local_width != standard.local_width)
    Throw(ErrorCode::kInvalidOption, "local width", "given {}, but the map '{}' takes none",
          options.local_width, info.name);
  if (!(options.local_width >= kLeastWidth && options.local_width <= kMostWidth))
    Throw(ErrorCode::kInvalidOption, "local width", "given {}, expected {} to {}",
          options.local_width, kLeastWidth, kMostWidth);
  if (options.local_smoothing == standard.local_smoothing) return;
  if (info.name != kBall)
    Throw(ErrorCode::kInvalidOption, "local smoothing", "given {}, but the map '{}' takes none",
          options.local_smoothing, info.name);
  if (!(options.local_smoothing >= kLeastWidth && options.local_smoothing <= kMostWidth))
    Throw(ErrorCode::kInvalidOption, "local smoothing", "given {}, expected {} to {}",
          options.local_smoothing, kLeastWidth, kMostWidth);
}

kernels::Omega WithFrequencies(const kernels::Omega& omega, const FeatureOptions& options,
                               const RandomStream& stream) {
  std::vector<double> rows = kernels::reference::DenseRows(omega);
  std::vector<double> frequencies(rows.size());
  if (options.map == kBall) {
    stream.FillNormal(0, frequencies);
    const double smoothing = Smoothing(options, omega.dim);
    for (double& frequency : frequencies) frequency /= smoothing;
  } else {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      // Halfway between the numbers that can be drawn: never ±½.
      const double u = stream.Uniform(i) - 0.5 + 0x1p-54;
      frequencies[i] = std::clamp(std::tan(std::numbers::pi * u) / options.local_width,
                                  -kLargestFrequency, kLargestFrequency);
    }
  }
  rows.insert(rows.end(), frequencies.begin(), frequencies.end());
  return DenseOmega(2 * omega.features, omega.dim, rows);
}

std::vector<double> MaskWeights(const kernels::Omega& omega, const FeatureOptions& options) {
  if (options.map != kBall) return {};
  const auto d = static_cast<size_t>(omega.dim);
  const std::span<const double> rows(omega.dense);
  const double weight = BallWeight(omega.dim, options.local_width, Smoothing(options, omega.dim));
  if (!(weight <= kLargestWeight))
    Throw(ErrorCode::kInvalidOption, "local-ball",
          "given dim {}, width {} and smoothing {}: its weights of {:.0e} are useless, expected at "
          "most {:.0e}; local-laplace does not depend on the dim",
          omega.dim, options.local_width, Smoothing(options, omega.dim), weight, kLargestWeight);
  std::vector<double> weights, w(d);
  for (int64_t r = omega.features / 2; r < omega.features; ++r) {
    const auto row = rows.subspan(static_cast<size_t>(r) * d, d);
    for (size_t i = 0; i < d; ++i) {
      w[i] = options.local_width * row[i];
      if (!(std::fabs(w[i]) <= kLargestBallFrequency))
        Throw(ErrorCode::kInvalidOption, "local-ball",
              "given a frequency of {:.3g} over the width {}, expected at most {}: take a smaller "
              "width or more smoothing",
              std::fabs(w[i]), options.local_width, kLargestBallFrequency);
    }
    weights.push_back(weight * L1BallTransform(w));
  }
  return weights;
}

}  // namespace favor::features
