#include "features/option_fields.h"

#include "kernels/polynomial_shape.h"

namespace favor::features {
namespace {

template <class Infos>
std::vector<std::string_view> NamesOf(const Infos& infos) {
  std::vector<std::string_view> names;
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

}  // namespace

std::span<const std::string_view> MapNames() {
  static const std::vector<std::string_view> names = NamesOf(Maps());
  return names;
}
std::span<const std::string_view> ProjectionNames() {
  static const std::vector<std::string_view> names = NamesOf(Projections());
  return names;
}

std::vector<Field> OptionFields(FeatureOptions& o) {
  return {
      {"map", "Feature map of linear attention (favor info lists them)",
       NameField{&o.map, MapNames()}},
      {"projection", "How ω is drawn (favor info lists the ways)",
       NameField{&o.projection, ProjectionNames()}},
      {"features",
       "Number m of rows of ω; maps in two parts have 2m features. Of poly-sum and poly-sketch: "
       "random columns in all",
       IntegerField{&o.features, 1, FeaturePlan::kMaxFeatures}},
      {"omega_norm", "Lengths of ω's rows; map: what the map needs", Choice(o.omega_norm)},
      {"shared_omega", "One ω for all heads", FlagField{&o.shared_omega}},
      {"omega_type", "ω is rounded to this type; bf16 is faster on a GPU", Choice(o.omega_type),
       /*sparse=*/true},
      {"kernel_epsilon", "Added to every feature of a generalized map, in place of the map's own",
       OptionalNumberField{&o.kernel_epsilon, 0, 1e6}},
      {"oprf_a", "The constant A < 1/8 of the map oprf, the same for queries and keys",
       SharedNumberField{&o.oprf_a, -1e6, 0.125}},
      {"degree", "Kernel (x·y)^degree of the maps poly-exact, poly-sum and poly-sketch",
       IntegerField{&o.degree, 1, kernels::kMaxPolynomialDegree}, /*sparse=*/true},
      {"coefficients", "Kernel Σ c_k·(x·y)^k of these maps instead, as c_0,c_1,…",
       NumbersField{&o.coefficients, -1e6, 1e6}, /*sparse=*/true},
      {"rotate", "Rotate rows at random before poly-sum, for sparse ones", FlagField{&o.rotate},
       /*sparse=*/true},
      {"local_width", "Width δ of the maps local-…, in units of the scaled rows",
       NumberField{&o.local_width, 1e-3, 1e6}, /*sparse=*/true},
      {"local_smoothing", "Smoothing σ of local-ball; 0: δ/dim",
       NumberField{&o.local_smoothing, 0, 1e6},
       /*sparse=*/true},
      {"least_denominator",
       "Signed maps: rows of attention whose denominator is smaller are 0, like those whose "
       "denominator is not positive",
       NumberField{&o.least_denominator, 0, 1e30}, /*sparse=*/true},
  };
}

}  // namespace favor::features
