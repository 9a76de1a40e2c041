// Options that say how features are made: a map and its constants, and an ω drawn or given.
#ifndef FAVOR_CLI_FEATURE_OPTIONS_H_
#define FAVOR_CLI_FEATURE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/field_options.h"
#include "cli/options.h"
#include "favor/features.h"

namespace favor::cli {

class FeatureArguments {
 public:
  // An option for every field of FeatureOptions, and --omega for a given ω.
  void Add(Options& options);

  bool Given() const { return fields_.Given() || !omega_.empty(); }  // any of them
  // Reads the options. Throws for invalid values, and if some options say how to draw an ω
  // although --omega gives one.
  void Read(std::string_view who);
  // The plan of --omega W.npy, or one drawn by the options.
  FeaturePlan Plan(int64_t heads, int64_t dim, uint64_t seed) const;

  // Replaces the value of --oprf-a.
  void SetOprfA(std::vector<double> a) { options_.oprf_a = std::move(a); }
  const std::string& omega() const { return omega_; }  // the file of a given ω, or ""
  // The name of the projection, such as "orthogonal"; "given" with --omega.
  const std::string& projection() const;

 private:
  FeatureOptions options_;
  FieldOptions fields_;
  std::string omega_;
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_FEATURE_OPTIONS_H_
