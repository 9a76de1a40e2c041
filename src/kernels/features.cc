#include "kernels/features.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/packed_omega.h"
#include "kernels/project.h"

namespace favor::kernels {
namespace {

std::vector<double> SquaredRowNorms(const Omega& omega) {
  const std::vector<double> rows = reference::DenseRows(omega);
  const auto d = static_cast<size_t>(omega.dim);
  std::vector<double> norms(static_cast<size_t>(omega.features), 0.0);
  for (size_t i = 0; i < rows.size(); ++i) norms[i / d] += rows[i] * rows[i];
  return norms;
}

// Signs, then a Hadamard matrix: an orthogonal matrix over a power of two of elements, to which
// rows are padded.
Omega Rotation(const int32_t* signs, int64_t dim, int64_t padded_dim) {
  Omega omega{.features = padded_dim, .dim = dim, .padded_dim = padded_dim};
  omega.stages = {{.factor = OmegaStage::Factor::kSigns},
                  {.factor = OmegaStage::Factor::kHadamard}};
  omega.block_parameters.emplace_back(signs, signs + padded_dim);
  omega.row_scale.assign(static_cast<size_t>(padded_dim),
                         static_cast<float>(1 / std::sqrt(static_cast<double>(padded_dim))));
  return omega;
}

}  // namespace

RowMapTables HeadFeatures::Tables() const {
  return {.dim = polynomial->dim,
          .blocks = polynomial->blocks.data(),
          .block_count = static_cast<int64_t>(polynomial->blocks.size()),
          .runs = polynomial->runs.data(),
          .run_count = static_cast<int64_t>(polynomial->runs.size()),
          .table = table};
}

void HeadFeatures::SetOprfA(double a) {
  const auto d = static_cast<double>(dim);
  log_normalizer += d / 4 * (std::log(1 - 4 * a) - std::log(1 - 4 * oprf_a));
  oprf_a = a;
  argument_scale = std::sqrt(1 - 4 * a);
}

FeatureConstants::FeatureConstants(FeatureParts parts)
    : map_(&parts.map),
      dim_(parts.dim),
      features_(map_->IsRowMap() ? parts.polynomial.width
                                 : parts.omega[0].features / (map_->masked ? 2 : 1)),
      width_(map_->IsRowMap() ? features_ : features_ * map_->traits->info.parts),
      epsilon_(parts.epsilon),
      least_denominator_(parts.least_denominator),
      norm_slope_(map_->traits->norm_slope + parts.norm_slope),
      argument_scale_(parts.argument_scale),
      polynomial_(std::move(parts.polynomial)),
      tables_(std::move(parts.tables)),
      omega_(std::move(parts.omega)),
      oprf_a_(std::move(parts.oprf_a)),
      mask_weights_(std::move(parts.mask_weights)) {
  if (polynomial_.rotation >= 0) {
    for (const std::vector<int32_t>& table : tables_)
      omega_.push_back(Rotation(table.data() + polynomial_.rotation, dim_, polynomial_.dim));
  }
  for (const Omega& one : omega_) {
    packed_.push_back(std::make_unique<const cpu::PackedOmega>(one));
    if (map_->traits->info.takes_a) squared_norm_.push_back(SquaredRowNorms(one));
  }
}
FeatureConstants::~FeatureConstants() = default;

HeadFeatures FeatureConstants::Head(int64_t head) const {
  const size_t entry = entries() == 1 ? 0 : static_cast<size_t>(head);
  HeadFeatures features{.map = map_,
                        .dim = dim_,
                        .width = width_,
                        .features = features_,
                        .epsilon = epsilon_,
                        .argument_scale = argument_scale_,
                        .norm_slope = norm_slope_};
  if (map_->IsRowMap()) {
    features.polynomial = &polynomial_;
    if (!tables_.empty()) features.table = tables_[entry].data();
  }
  if (omega_.empty()) return features;
  const size_t drawn = omega_.size() == 1 ? 0 : entry;
  features.omega = &omega_[drawn];
  features.packed_omega = packed_[drawn].get();
  if (map_->IsRowMap()) return features;
  features.log_normalizer =
      std::log(map_->traits->normalizer) - std::log(static_cast<double>(features_)) / 2;
  if (!mask_weights_.empty()) features.mask_weight = mask_weights_[drawn].data();
  if (map_->traits->info.takes_a) {
    features.squared_norm = squared_norm_[drawn].data();
    features.SetOprfA(oprf_a_[entry]);
  }
  return features;
}

int64_t FeatureConstants::Bytes() const {
  size_t bytes = 0;
  for (size_t i = 0; i < omega_.size(); ++i) {
    bytes += omega_[i].dense.size() * sizeof(double) + omega_[i].row_scale.size() * sizeof(float) +
             (packed_[i]->rows.size() + packed_[i]->columns.size()) * sizeof(float);
    for (const auto& parameters : omega_[i].block_parameters)
      bytes += parameters.size() * sizeof(float);
  }
  for (const auto& norms : squared_norm_) bytes += norms.size() * sizeof(double);
  for (const auto& weights : mask_weights_) bytes += weights.size() * sizeof(double);
  for (const auto& table : tables_) bytes += table.size() * sizeof(int32_t);
  bytes += polynomial_.runs.size() * sizeof(MonomialRun);
  return static_cast<int64_t>(bytes);
}

bool FeatureConstants::Equals(const FeatureConstants& other) const {
  if (this == &other) return true;
  if (map_ != other.map_ || dim_ != other.dim_ || width_ != other.width_ ||
      epsilon_ != other.epsilon_ || norm_slope_ != other.norm_slope_ ||
      argument_scale_ != other.argument_scale_ || least_denominator_ != other.least_denominator_ ||
      polynomial_.coefficients != other.polynomial_.coefficients ||
      polynomial_.rotation != other.polynomial_.rotation)
    return false;
  // If one has entries for all heads, a single entry of the other stands for each of them.
  const int64_t count = std::max(entries(), other.entries());
  for (int64_t entry = 0; entry < count; ++entry) {
    const auto index = [entry](const FeatureConstants& constants) {
      return constants.entries() == 1 ? 0 : static_cast<size_t>(entry);
    };
    if (oprf_a_[index(*this)] != other.oprf_a_[index(other)]) return false;
    if (!tables_.empty() && tables_[index(*this)] != other.tables_[index(other)]) return false;
    if (!mask_weights_.empty() &&
        mask_weights_[mask_weights_.size() == 1 ? 0 : index(*this)] !=
            other.mask_weights_[other.mask_weights_.size() == 1 ? 0 : index(other)])
      return false;
    if (HasOmega() &&
        reference::DenseRows(OmegaOf(entry)) != reference::DenseRows(other.OmegaOf(entry)))
      return false;
  }
  return true;
}

const cuda::DeviceFeatures& FeatureConstants::OnGpu(const Context& context) const {
  const std::lock_guard lock(mutex_);
  auto& copy = on_gpu_[context.device().index];
  if (copy == nullptr) copy = cuda::CopyFeatures(*this, context);
  return *copy;
}

}  // namespace favor::kernels
