// From names and options to a plan: every combination is checked here, once.
#include "features/drawn_features.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error_text.h"
#include "core/half.h"
#include "features/local_frequencies.h"
#include "features/polynomial_tables.h"
#include "kernels/maps/local_gaussian.h"
#include "kernels/project.h"

namespace favor {
namespace {

using features::AllProjections;
using features::DrawnFeatures;
using features::FindProjection;
using features::ProjectionEntry;
using kernels::HeadFeatures;
using kernels::MapEntry;
using kernels::MapTraits;

constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxOmegaElements = int64_t{1} << 30;
constexpr uint64_t kFrequencies = uint64_t{1} << 40;  // a stream that no projection draws from

const MapEntry& FindMapOrThrow(std::string_view name) {
  if (const MapEntry* entry = kernels::FindMap(name)) return *entry;
  std::vector<std::string_view> names;
  for (const MapEntry& entry : kernels::AllMaps()) names.push_back(entry.traits->info.name);
  Throw(ErrorCode::kInvalidOption, "map", "unknown name '{}'{}", Printable(name),
        Suggest(name, names));
}

void CheckRange(std::string_view who, int64_t given, int64_t most) {
  if (given < 1 || given > most) {
    Throw(ErrorCode::kInvalidOption, who, "given {}, expected 1 to {}", given, most);
  }
}

OmegaNorm ChooseNorm(const FeatureOptions& options, const MapTraits& traits) {
  const OmegaNorm norm = options.omega_norm == OmegaNorm::kMap
                             ? traits.only_norm.value_or(OmegaNorm::kChi)
                             : options.omega_norm;
  if (traits.only_norm && norm != *traits.only_norm) {
    Throw(ErrorCode::kInvalidOption, "omega norm",
          "given {}, but the map '{}' is right only with {}", Name(norm), traits.info.name,
          Name(*traits.only_norm));
  }
  return norm;
}

double ChooseEpsilon(const FeatureOptions& options, const MapTraits& traits) {
  if (!options.kernel_epsilon) return traits.info.default_epsilon.value_or(0);
  const double epsilon = *options.kernel_epsilon;
  if (!traits.info.default_epsilon) {
    Throw(ErrorCode::kInvalidOption, "kernel epsilon",
          "given {}, but the map '{}' takes none (it is stabilised exactly)", epsilon,
          traits.info.name);
  }
  if (!(epsilon >= 0 && epsilon <= 1e6)) {
    Throw(ErrorCode::kInvalidOption, "kernel epsilon", "given {}, expected 0 to 1e6", epsilon);
  }
  return epsilon;
}

double ChooseLeastDenominator(const FeatureOptions& options, const MapTraits& traits) {
  const double least = options.least_denominator;
  if (least != 0 && traits.info.nonnegative)
    Throw(ErrorCode::kInvalidOption, "least denominator",
          "given {}, but the denominators of the map '{}' do not vanish", least, traits.info.name);
  if (!(least >= 0 && least <= 1e30))
    Throw(ErrorCode::kInvalidOption, "least denominator", "given {}, expected 0 to 1e30", least);
  return least;
}

// A per head; the default assumes queries and keys of unit variance scaled by d^(−1/4): mean ‖x+y‖²
// = 2√d.
double ChooseOprfA(const FeatureOptions& options, const MapTraits& traits, int64_t heads,
                   int64_t head, int64_t dim) {
  const auto& given = options.oprf_a;
  if (!traits.info.takes_a) {
    if (!given.empty()) {
      Throw(ErrorCode::kInvalidOption, "oprf A", "given {}, but the map '{}' takes none", given[0],
            traits.info.name);
    }
    return 0;
  }
  if (given.empty()) return OptimalOprfA(2 * std::sqrt(static_cast<double>(dim)), dim);
  if (given.size() != 1 && given.size() != static_cast<size_t>(heads)) {
    Throw(ErrorCode::kInvalidOption, "oprf A",
          "given {} values, expected one, or one for each of {} heads", given.size(), heads);
  }
  const double a = given[given.size() == 1 ? 0 : static_cast<size_t>(head)];
  if (!(a < 0.125 && a > -1e6)) {
    Throw(ErrorCode::kInvalidOption, "oprf A", "given {}, expected a number from -1e6 to below 1/8",
          a);
  }
  return a;
}

// ω as it was drawn or given, rounded to the type of the options. A product of factors is written
// out; the identity of no projection is of any type.
kernels::Omega Rounded(kernels::Omega omega, OmegaType type) {
  if (type == OmegaType::kF32 || (!omega.IsDense() && omega.stages.empty())) return omega;
  std::vector<double> rows = kernels::reference::DenseRows(omega);
  for (double& value : rows) value = FromBF16(ToBF16(value));
  return features::DenseOmega(omega.features, omega.dim, rows);
}

// Checks what does not depend on ω and makes the constants of a map with ω by make_omega(head,
// norm).
template <class MakeOmega>
std::shared_ptr<DrawnFeatures> Make(const FeatureOptions& options, int64_t heads, int64_t dim,
                                    bool one_omega, const MakeOmega& make_omega) {
  const MapEntry& map = FindMapOrThrow(options.map);
  const MapTraits& traits = *map.traits;
  const OmegaNorm norm = ChooseNorm(options, traits);
  const double epsilon = ChooseEpsilon(options, traits);
  const bool one_entry = one_omega && options.oprf_a.size() <= 1;
  std::vector<kernels::Omega> omega;
  std::vector<double> oprf_a;
  for (int64_t head = 0; head < (one_entry ? 1 : heads); ++head) {
    oprf_a.push_back(ChooseOprfA(options, traits, heads, head, dim));
    if (head == 0 || !one_omega)
      omega.push_back(Rounded(make_omega(head, norm), options.omega_type));
  }
  kernels::FeatureParts parts{.map = map,
                              .dim = dim,
                              .epsilon = epsilon,
                              .least_denominator = ChooseLeastDenominator(options, traits),
                              .oprf_a = std::move(oprf_a),
                              .omega = std::move(omega)};
  if (traits.info.name == kernels::LocalGaussian::kTraits.info.name) {
    const double a = kernels::LocalGaussian::A(options.local_width);
    parts.argument_scale = std::sqrt(a);
    parts.norm_slope = -(2 * a - 1);
  }
  for (size_t i = 0; map.masked && i < parts.omega.size(); ++i) {
    std::vector<double> weights = features::MaskWeights(parts.omega[i], options);
    if (!weights.empty()) parts.mask_weights.push_back(std::move(weights));
  }
  auto drawn = std::make_shared<DrawnFeatures>(options, heads, std::move(parts));
  drawn->norm = norm;
  return drawn;
}

// The same for a row map with its tables: one for each head, one for all, or none.
std::shared_ptr<DrawnFeatures> MakeRowMap(const FeatureOptions& options, int64_t heads, int64_t dim,
                                          std::vector<std::vector<int32_t>> tables) {
  const MapEntry& map = FindMapOrThrow(options.map);
  const OmegaNorm norm = ChooseNorm(options, *map.traits);
  std::vector<double> oprf_a(tables.empty() ? 1 : tables.size(),
                             ChooseOprfA(options, *map.traits, heads, 0, dim));
  auto drawn = std::make_shared<DrawnFeatures>(
      options, heads,
      kernels::FeatureParts{.map = map,
                            .dim = dim,
                            .epsilon = ChooseEpsilon(options, *map.traits),
                            .least_denominator = ChooseLeastDenominator(options, *map.traits),
                            .oprf_a = std::move(oprf_a),
                            .polynomial = features::ShapeOf(options, map, dim),
                            .tables = std::move(tables)});
  drawn->norm = norm;
  return drawn;
}

// The dot product φ(x)·φ(y) of one head, in double.
double FeatureDot(const HeadFeatures& head, std::span<const double> x, std::span<const double> y) {
  const auto width = static_cast<size_t>(head.width);
  std::vector<double> exponents_x(width), exponents_y(width), factors_x(width), factors_y(width);
  kernels::reference::FeaturesOf(head, FeatureRole::kQuery, x.data(), exponents_x.data(),
                                 factors_x.data());
  kernels::reference::FeaturesOf(head, FeatureRole::kKey, y.data(), exponents_y.data(),
                                 factors_y.data());
  double sum = 0;
  for (size_t r = 0; r < width; ++r) {
    sum += std::exp(exponents_x[r] + exponents_y[r] + 2 * head.log_normalizer) * factors_x[r] *
           factors_y[r];
  }
  return sum;
}

kernels::Pair PairOf(std::span<const double> x, std::span<const double> y) {
  kernels::Pair pair{};
  for (size_t i = 0; i < x.size(); ++i) {
    pair.xx += x[i] * x[i];
    pair.yy += y[i] * y[i];
    pair.xy += x[i] * y[i];
    pair.squares += x[i] * x[i] * y[i] * y[i];
    pair.difference += std::fabs(x[i] - y[i]);
  }
  return pair;
}

kernels::Moments TheoryOf(const DrawnFeatures& drawn, const kernels::Pair& pair) {
  const HeadFeatures head = drawn.constants.Head(0);
  return head.map->theory(pair, {.dim = head.dim,
                                 .omega_dim = drawn.projection->omega_dim(head.dim),
                                 .norm = drawn.norm,
                                 .epsilon = head.epsilon,
                                 .oprf_a = head.oprf_a,
                                 .local_width = drawn.options.local_width});
}

// Whether φ(x)·φ(y) is the kernel itself because nothing is drawn.
bool IsExact(const DrawnFeatures& drawn) {
  return drawn.constants.HasOmega() && !drawn.projection->random;
}

// Degrees are drawn independently of each other: their errors add up.
std::optional<double> PolynomialMse(const kernels::FeatureConstants& constants,
                                    const kernels::Pair& pair) {
  const kernels::PolynomialShape& shape = constants.polynomial();
  double sum = 0;
  for (const kernels::PolynomialBlock& block : shape.blocks) {
    if (block.table < 0) continue;
    const auto mse = constants.map().row.unit_mse(pair, block.degree, block.columns, shape.dim,
                                                  shape.rotation >= 0);
    if (!mse) return std::nullopt;
    sum += block.coefficient * block.coefficient * *mse;
  }
  return std::max(sum, 0.0);  // differences that round below 0
}

void CheckPair(int64_t dim, std::span<const double> x, std::span<const double> y) {
  const auto d = static_cast<size_t>(dim);
  if (x.size() != d || y.size() != d) {
    Throw(ErrorCode::kInvalidData, "kernel", "given vectors of {} and {} elements, expected {}",
          x.size(), y.size(), d);
  }
}

}  // namespace

const FeatureMapInfo& FindMap(std::string_view name) { return FindMapOrThrow(name).traits->info; }

std::span<const ProjectionInfo> Projections() {
  static const std::vector<ProjectionInfo> infos = [] {
    std::vector<ProjectionInfo> list;
    for (const ProjectionEntry& entry : AllProjections()) list.push_back(entry.info);
    return list;
  }();
  return infos;
}

FeaturePlan FeaturePlan::Draw(const FeatureOptions& options, int64_t heads, int64_t dim,
                              uint64_t seed, uint64_t redraw) {
  const ProjectionEntry& projection = FindProjection(options.projection);
  const MapEntry& map = FindMapOrThrow(options.map);
  const MapTraits& traits = *map.traits;
  CheckRange("heads", heads, kMaxHeads);
  CheckRange("dim", dim, kMaxDim);
  CheckRange("features", options.features, kMaxFeatures);
  features::CheckPolynomial(options, map, dim);
  features::CheckLocal(options, map);
  if (!projection.random && !traits.may_skip_projection && !map.IsRowMap()) {
    Throw(ErrorCode::kInvalidOption, "projection",
          "given '{}', but the map '{}' needs a random one", projection.info.name,
          traits.info.name);
  }
  const int64_t drawn_heads = options.shared_omega ? 1 : heads;
  if (options.features > kMaxOmegaElements / (dim * drawn_heads * (map.masked ? 2 : 1))) {
    Throw(ErrorCode::kInvalidOption, "features",
          "given {} for {} heads of dim {}: ω has more than 2^30 elements", options.features,
          drawn_heads, dim);
  }
  const RandomStream stream = RandomStream(seed, "omega").Child(redraw);
  if (map.IsRowMap()) {
    const kernels::PolynomialShape shape = features::ShapeOf(options, map, dim);
    std::vector<std::vector<int32_t>> tables;
    for (int64_t head = 0; shape.IsRandom() && head < drawn_heads; ++head)
      tables.push_back(
          features::DrawTable(shape, map.row.layout, stream.Child(static_cast<uint64_t>(head))));
    const std::shared_ptr<DrawnFeatures> drawn = MakeRowMap(options, heads, dim, std::move(tables));
    drawn->projection = &projection;
    drawn->seed = seed;
    drawn->redraw = redraw;
    return FeaturePlan(drawn);
  }
  const bool one_omega = options.shared_omega || heads == 1 || !projection.random;
  auto drawn = Make(options, heads, dim, one_omega, [&](int64_t head, OmegaNorm norm) {
    const RandomStream own = stream.Child(static_cast<uint64_t>(head));
    kernels::Omega omega =
        projection.draw({.features = options.features, .dim = dim, .norm = norm, .stream = own});
    return map.masked ? features::WithFrequencies(omega, options, own.Child(kFrequencies)) : omega;
  });
  drawn->projection = &projection;
  drawn->seed = seed;
  drawn->redraw = redraw;
  return FeaturePlan(std::move(drawn));
}

namespace features {

FeaturePlan PlanWithTables(const FeatureOptions& options, int64_t heads, int64_t dim,
                           std::vector<std::vector<int32_t>> tables) {
  return internal::Access::Make<FeaturePlan>(
      std::shared_ptr<const DrawnFeatures>(MakeRowMap(options, heads, dim, std::move(tables))));
}

int64_t WidthOf(const FeatureOptions& options, int64_t dim) {
  const MapEntry* map = kernels::FindMap(options.map);
  if (map == nullptr) return 0;
  if (!map->IsRowMap()) return options.features * map->traits->info.parts;
  CheckPolynomial(options, *map, dim);
  return ShapeOf(options, *map, dim).width;
}

}  // namespace features

FeaturePlan FeaturePlan::WithOmega(const FeatureOptions& options, int64_t heads, ConstView omega) {
  CheckRange("heads", heads, kMaxHeads);
  if (const MapEntry& map = FindMapOrThrow(options.map); !map.IsRowMap()) {
    features::CheckPolynomial(options, map, omega.rank() == 0 ? 1 : omega.size(omega.rank() - 1));
    features::CheckLocal(options, map);
    if (map.masked && omega.rank() >= 2 && omega.size(omega.rank() - 2) % 2 != 0)
      Throw(ErrorCode::kInvalidData, "omega",
            "given {} rows for the map '{}', expected as many frequencies as directions",
            omega.size(omega.rank() - 2), options.map);
  } else {
    Throw(ErrorCode::kInvalidOption, "omega", "given for the map '{}', which has none",
          options.map);
  }
  if (omega.rank() != 2 && omega.rank() != 3) {
    Throw(ErrorCode::kInvalidData, "omega",
          "given shape {}, expected [features, dim] or [heads, features, dim]",
          omega.shape().ToString());
  }
  if (omega.rank() == 3 && omega.size(0) != heads) {
    Throw(ErrorCode::kInvalidData, "omega", "given shape {} for {} heads", omega.shape().ToString(),
          heads);
  }
  const int64_t m = omega.size(omega.rank() - 2), d = omega.size(omega.rank() - 1);
  const int64_t most = kMaxFeatures * (FindMapOrThrow(options.map).masked ? 2 : 1);
  if (m < 1 || m > most || d < 1 || d > kMaxDim) {
    Throw(ErrorCode::kInvalidData, "omega",
          "given shape {}, expected 1 to {} features and dim 1 to {}", omega.shape().ToString(),
          most, kMaxDim);
  }
  if (!AllFinite(omega))
    Throw(ErrorCode::kInvalidData, "omega", "given NaN or infinity, expected finite values");
  constexpr double kLargestOmega = 1e9;  // products with rows in range stay within float
  if (LargestAbsolute(omega) > kLargestOmega) {
    Throw(ErrorCode::kInvalidData, "omega", "given values up to {:.3g}, expected at most {:.0e}",
          LargestAbsolute(omega), kLargestOmega);
  }
  const bool one_omega = omega.rank() == 2 || heads == 1;
  return FeaturePlan(Make(options, heads, d, one_omega, [&](int64_t head, OmegaNorm) {
    kernels::Omega result{.features = m, .dim = d, .padded_dim = d};
    result.dense.resize(static_cast<size_t>(m * d));
    Copy(omega.rank() == 3 ? omega.At(head) : omega, View(result.dense.data(), {m, d}));
    return result;
  }));
}

int64_t FeaturePlan::heads() const { return impl_->heads; }
int64_t FeaturePlan::dim() const { return impl_->constants.dim(); }
int64_t FeaturePlan::features() const { return impl_->constants.features(); }
int64_t FeaturePlan::width() const { return impl_->constants.width(); }
const FeatureMapInfo& FeaturePlan::map() const { return impl_->constants.map().traits->info; }
const FeatureOptions& FeaturePlan::options() const { return impl_->options; }
double FeaturePlan::LogNormalizer(int64_t head) const {
  return impl_->constants.Head(head).log_normalizer;
}
double FeaturePlan::OprfA(int64_t head) const { return impl_->constants.Head(head).oprf_a; }

Tensor FeaturePlan::Omega() const {
  const kernels::FeatureConstants& constants = impl_->constants;
  if (!constants.HasOmega())
    Throw(ErrorCode::kInvalidOption, "omega", "requested of the map '{}', which has none",
          map().name);
  const int64_t count = constants.entries();
  const int64_t rows = constants.omega_rows();
  Tensor result(heads() > 1 && count == 1 ? Shape{rows, dim()} : Shape{count, rows, dim()});
  float* out = result.Data<float>();
  for (int64_t entry = 0; entry < count; ++entry) {
    for (const double value : kernels::reference::DenseRows(constants.OmegaOf(entry)))
      *out++ = static_cast<float>(value);
  }
  return result;
}

std::optional<double> FeaturePlan::Kernel(std::span<const double> x,
                                          std::span<const double> y) const {
  CheckPair(dim(), x, y);
  const kernels::Pair pair = PairOf(x, y);
  if (!impl_->constants.HasOmega()) return impl_->constants.polynomial().Kernel(pair.xy);
  if (impl_->projection == nullptr) return std::nullopt;
  if (IsExact(*impl_)) return FeatureDot(impl_->constants.Head(0), x, y);
  return TheoryOf(*impl_, pair).mean;
}

std::optional<double> FeaturePlan::ExpectedMse(std::span<const double> x,
                                               std::span<const double> y) const {
  CheckPair(dim(), x, y);
  const kernels::Pair pair = PairOf(x, y);
  if (!impl_->constants.HasOmega()) return PolynomialMse(impl_->constants, pair);
  if (impl_->projection == nullptr) return std::nullopt;
  if (IsExact(*impl_)) return 0.0;
  // Var = (E X² − F²)/m + P(E X₁X₂ − F²)/m² with P ordered pairs of rows inside blocks.
  const auto pairs = impl_->projection->haar_pairs(features(), dim());
  const kernels::Moments moments = TheoryOf(*impl_, pair);
  if (!pairs || !moments.mean || !moments.second || (*pairs > 0 && !moments.cross))
    return std::nullopt;
  const auto m = static_cast<double>(features());
  const double square = *moments.mean * *moments.mean;
  const double coupling = *pairs > 0 ? *pairs * (*moments.cross - square) / (m * m) : 0;
  return (*moments.second - square) / m + coupling;
}

std::optional<double> FeaturePlan::ErrorProbability(std::span<const double> x,
                                                    std::span<const double> y, double error) const {
  if (!(error > 0))
    Throw(ErrorCode::kInvalidOption, "error", "given {}, expected a number above 0", error);
  const std::optional<double> mse = ExpectedMse(x, y);
  return mse ? std::optional(std::min(1.0, *mse / (error * error))) : std::nullopt;
}

}  // namespace favor
