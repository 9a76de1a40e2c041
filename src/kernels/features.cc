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

}  // namespace

void HeadFeatures::SetOprfA(double a) {
  const auto d = static_cast<double>(dim);
  log_normalizer += d / 4 * (std::log(1 - 4 * a) - std::log(1 - 4 * oprf_a));
  oprf_a = a;
  argument_scale = std::sqrt(1 - 4 * a);
}

FeatureConstants::FeatureConstants(const MapEntry& map, int64_t dim, double epsilon,
                                   std::vector<Omega> omega, std::vector<double> oprf_a)
    : map_(&map),
      dim_(dim),
      width_(map.Width(omega.empty() ? 0 : omega[0].features, dim)),
      epsilon_(epsilon),
      omega_(std::move(omega)),
      oprf_a_(std::move(oprf_a)) {
  for (const Omega& one : omega_) {
    packed_.push_back(std::make_unique<const cpu::PackedOmega>(one));
    if (map.traits->info.takes_a) squared_norm_.push_back(SquaredRowNorms(one));
  }
}
FeatureConstants::~FeatureConstants() = default;

HeadFeatures FeatureConstants::Head(int64_t head) const {
  const size_t entry = entries() == 1 ? 0 : static_cast<size_t>(head);
  HeadFeatures features{.map = map_, .dim = dim_, .width = width_, .epsilon = epsilon_};
  if (omega_.empty()) return features;
  const size_t drawn = omega_.size() == 1 ? 0 : entry;
  features.omega = &omega_[drawn];
  features.packed_omega = packed_[drawn].get();
  features.log_normalizer = std::log(map_->traits->normalizer) -
                            std::log(static_cast<double>(features.omega->features)) / 2;
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
  return static_cast<int64_t>(bytes);
}

bool FeatureConstants::Equals(const FeatureConstants& other) const {
  if (this == &other) return true;
  if (map_ != other.map_ || dim_ != other.dim_ || width_ != other.width_ ||
      epsilon_ != other.epsilon_ || omega_.empty() != other.omega_.empty())
    return false;
  // If one has entries for all heads, a single entry of the other stands for each of them.
  const int64_t count = std::max(entries(), other.entries());
  for (int64_t entry = 0; entry < count; ++entry) {
    const auto a = [entry](const FeatureConstants& constants) {
      return constants.oprf_a_[constants.entries() == 1 ? 0 : static_cast<size_t>(entry)];
    };
    if (a(*this) != a(other)) return false;
    if (!omega_.empty() &&
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
