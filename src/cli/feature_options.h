// Options that say how features are made: a map and its constants, and an ω drawn or given.
#ifndef FAVOR_CLI_FEATURE_OPTIONS_H_
#define FAVOR_CLI_FEATURE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "favor/features.h"

namespace favor::cli {

class FeatureArguments {
 public:
  // --map, --projection, --features, --omega-norm, --shared-omega, --kernel-epsilon, --oprf-a, and
  // --omega for a given ω.
  void Add(Options& options);

  bool Given() const;  // any of them
  // Throws where options say how to draw an ω that is given.
  void Check(std::string_view who) const;
  // The plan of --omega W.npy, or one drawn by the options.
  FeaturePlan Plan(int64_t heads, int64_t dim, uint64_t seed) const;

  void SetOprfA(std::vector<double> a) { options_.oprf_a = std::move(a); }
  const std::string& omega() const { return omega_; }  // the file of a given ω, or ""
  // "orthogonal", or "given".
  const std::string& projection() const;

 private:
  FeatureOptions options_;
  std::string omega_, omega_norm_;
  std::optional<double> oprf_a_;
  std::vector<const Option*> all_, drawing_;  // every option; those that say how ω is drawn
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_FEATURE_OPTIONS_H_
