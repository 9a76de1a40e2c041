#include "features/option_fields.h"

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
      {"features", "Number m of rows of ω; maps in two parts have 2m features",
       IntegerField{&o.features, 1, FeaturePlan::kMaxFeatures}},
      {"omega_norm", "Lengths of ω's rows; map: what the map needs", Choice(o.omega_norm)},
      {"shared_omega", "One ω for all heads", FlagField{&o.shared_omega}},
      {"kernel_epsilon", "Added to every feature of a generalized map, in place of the map's own",
       OptionalNumberField{&o.kernel_epsilon, 0, 1e6}},
      {"oprf_a", "The constant A < 1/8 of the map oprf, the same for queries and keys",
       SharedNumberField{&o.oprf_a, -1e6, 0.125}},
  };
}

}  // namespace favor::features
