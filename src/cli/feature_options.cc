#include "cli/feature_options.h"

#include <algorithm>

#include "core/error_text.h"
#include "favor/npy.h"

namespace favor::cli {

void FeatureArguments::Add(Options& options) {
  std::vector<std::string_view> maps, projections;
  for (const FeatureMapInfo& map : Maps()) maps.push_back(map.name);
  for (const ProjectionInfo& projection : Projections()) projections.push_back(projection.name);
  const Option& map =
      options.Choice("--map", maps, options_.map, "Feature map (favor info lists them)");
  const Option& projection = options.Choice("--projection", projections, options_.projection,
                                            "How ω is drawn (favor info lists the ways)");
  const Option& features =
      options.Integer("--features", {1, FeaturePlan::kMaxFeatures}, options_.features,
                      "Number m of rows of ω; maps in two parts have 2m features");
  const Option& norm = options
                           .Choice("--omega-norm", {Name(OmegaNorm::kChi), Name(OmegaNorm::kSqrtD)},
                                   omega_norm_, "Lengths of ω's rows: chi is unbiased")
                           .Default("the map's");
  const Option& shared =
      options.Flag("--shared-omega", options_.shared_omega, "One ω for all heads");
  const Option& epsilon = options
                              .Number("--kernel-epsilon", options_.kernel_epsilon,
                                      "Added to every feature of a generalized map")
                              .Default("the map's");
  const Option& a = options.Number(
      "--oprf-a", oprf_a_, "The constant A < 1/8 of the map oprf, the same for queries and keys");
  const Option& omega = options.Path("--omega", "W.npy", omega_,
                                     "A given ω, [m,d] or [H,m,d], instead of a drawn one");
  all_ = {&map, &projection, &features, &norm, &shared, &epsilon, &a, &omega};
  drawing_ = {&projection, &features, &norm, &shared};
}

bool FeatureArguments::Given() const {
  return std::ranges::any_of(all_, [](const Option* option) { return option->Given(); });
}

void FeatureArguments::Check(std::string_view who) const {
  if (omega_.empty()) return;
  for (const Option* option : drawing_) {
    if (option->Given()) {
      Throw(ErrorCode::kInvalidOption, who, "given --omega and {}, which says how to draw one",
            option->name());
    }
  }
}

FeaturePlan FeatureArguments::Plan(int64_t heads, int64_t dim, uint64_t seed) const {
  FeatureOptions options = options_;
  if (!omega_norm_.empty())
    options.omega_norm = omega_norm_ == Name(OmegaNorm::kChi) ? OmegaNorm::kChi : OmegaNorm::kSqrtD;
  if (oprf_a_ && options.oprf_a.empty()) options.oprf_a = {*oprf_a_};
  if (omega_.empty()) return FeaturePlan::Draw(options, heads, dim, seed);
  const Tensor omega = ReadNpy(omega_);
  if (omega.shape().rank() < 2 || omega.shape()[omega.shape().rank() - 1] != dim) {
    Throw(ErrorCode::kInvalidData, Printable(omega_), "given shape {}, expected rows of dim {}",
          omega.shape().ToString(), dim);
  }
  return FeaturePlan::WithOmega(options, heads, omega);
}

const std::string& FeatureArguments::projection() const {
  static const std::string given = "given";
  return omega_.empty() ? options_.projection : given;
}

}  // namespace favor::cli
