#include "features/projection.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/error_text.h"

namespace favor::features {

#define FAVOR_ENTRY(Name) ProjectionEntry Name##Projection();
#include "projections.inc"
#undef FAVOR_ENTRY

std::span<const ProjectionEntry> AllProjections() {
  static const ProjectionEntry entries[] = {
#define FAVOR_ENTRY(Name) Name##Projection(),
#include "projections.inc"
#undef FAVOR_ENTRY
  };
  return entries;
}

const ProjectionEntry& FindProjection(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ProjectionEntry& entry : AllProjections()) {
    if (entry.info.name == name) return entry;
    names.push_back(entry.info.name);
  }
  Throw(ErrorCode::kInvalidOption, "projection", "unknown name '{}'{}", Printable(name),
        Suggest(name, names));
}

std::vector<double> RowLengths(const DrawRequest& request, int64_t omega_dim) {
  const auto n = static_cast<size_t>(omega_dim);
  std::vector<double> lengths(static_cast<size_t>(request.features),
                              std::sqrt(static_cast<double>(n)));
  if (request.norm == OmegaNorm::kSqrtD) return lengths;
  const RandomStream stream = request.stream.Child(1);
  std::vector<double> gaussian(n);
  for (size_t r = 0; r < lengths.size(); ++r) {
    stream.FillNormal(r * n, gaussian);
    double square = 0;
    for (const double value : gaussian) square += value * value;
    lengths[r] = std::sqrt(square);
  }
  return lengths;
}

kernels::Omega DenseOmega(int64_t features, int64_t dim, const std::vector<double>& rows) {
  kernels::Omega omega{.features = features, .dim = dim, .padded_dim = dim};
  const std::vector<float> rounded(rows.begin(), rows.end());
  omega.dense.assign(rounded.begin(), rounded.end());
  return omega;
}

int64_t NextPowerOfTwo(int64_t dim) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(dim)));
}

StructuredBuilder::StructuredBuilder(const DrawRequest& request, int64_t padded_dim)
    : request_(request),
      omega_{.features = request.features, .dim = request.dim, .padded_dim = padded_dim} {}

StructuredBuilder& StructuredBuilder::Signs() {
  omega_.stages.push_back(
      {.factor = kernels::OmegaStage::Factor::kSigns, .first_parameter = parameters_});
  parameters_ += omega_.padded_dim;
  return *this;
}

StructuredBuilder& StructuredBuilder::Hadamard() {
  omega_.stages.push_back({.factor = kernels::OmegaStage::Factor::kHadamard});
  scale_ /= std::sqrt(static_cast<double>(omega_.padded_dim));
  return *this;
}

StructuredBuilder& StructuredBuilder::ButterflyRotations() {
  for (int64_t stride = 1; stride < omega_.padded_dim; stride *= 2) {
    omega_.stages.push_back({.factor = kernels::OmegaStage::Factor::kRotations,
                             .stride = stride,
                             .first_parameter = parameters_});
    parameters_ += omega_.padded_dim;  // a cosine and a sine for each of n/2 pairs
  }
  return *this;
}

kernels::Omega StructuredBuilder::Build() {
  const int64_t n = omega_.padded_dim;
  const int64_t blocks = (omega_.features + n - 1) / n;
  for (int64_t block = 0; block < blocks; ++block) {
    const RandomStream stream = request_.stream.Child(0).Child(static_cast<uint64_t>(block));
    std::vector<float> parameters(static_cast<size_t>(parameters_));
    for (const kernels::OmegaStage& stage : omega_.stages) {
      const auto first = static_cast<size_t>(stage.first_parameter);
      if (stage.factor == kernels::OmegaStage::Factor::kSigns) {
        for (size_t i = first; i < first + static_cast<size_t>(n); ++i) {
          parameters[i] = static_cast<float>(stream.Sign(i));
        }
      } else if (stage.factor == kernels::OmegaStage::Factor::kRotations) {
        for (size_t i = first; i < first + static_cast<size_t>(n); i += 2) {
          const double angle = 2 * std::numbers::pi * stream.Uniform(i);
          parameters[i] = static_cast<float>(std::cos(angle));
          parameters[i + 1] = static_cast<float>(std::sin(angle));
        }
      }
    }
    omega_.block_parameters.push_back(std::move(parameters));
  }
  for (const double length : RowLengths(request_, n)) {
    omega_.row_scale.push_back(static_cast<float>(scale_ * length));
  }
  return std::move(omega_);
}

}  // namespace favor::features
