// Exponents and factors of rows: E_r(x) = e(B ω_r·x) + norm_slope·‖x‖²/2 + A‖ω_r‖² and g_r(x),
// not stabilised, and their gradients. Row maps make g from the row itself; their E is 0. Columns
// of a negative coefficient have the other sign for keys.
#ifndef FAVOR_KERNELS_FEATURES_H_
#define FAVOR_KERNELS_FEATURES_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/backend.h"
#include "kernels/map_table.h"
#include "kernels/omega.h"

namespace favor::kernels {

namespace cpu {
struct PackedOmega;  // cpu/packed_omega.h
}
namespace cuda {
struct DeviceFeatures;  // cuda/features.cu
}

// Everything needed to turn rows of one head into features; it points into a FeatureConstants.
struct HeadFeatures {
  const MapEntry* map;
  int64_t dim, width;            // d, and the columns of φ
  int64_t features = 0;          // m; ω has so many rows, and twice as many if the map is masked
  const Omega* omega = nullptr;  // of a row map: the rotation of its rows, or null
  const cpu::PackedOmega* packed_omega = nullptr;
  const PolynomialShape* polynomial = nullptr;  // row maps only
  const int32_t* table = nullptr;               // what a row map draws
  const double* squared_norm = nullptr;         // [m], ‖ω_r‖²; oprf only
  double epsilon = 0;
  double argument_scale = 1;  // B
  double oprf_a = 0;          // A
  double log_normalizer = 0;  // φ = exp(E + log_normalizer)·g
  double norm_slope = 0;      // ∂E/∂(‖x‖²/2)
  // Masked maps: [m], what products of features of a frequency count; null: 1.
  const double* mask_weight = nullptr;

  // A‖ω_r‖² of column `column` of φ.
  double Offset(int64_t column) const {
    return squared_norm == nullptr ? 0 : oprf_a * squared_norm[column % features];
  }
  // Changes A, and B and the normaliser with it.
  void SetOprfA(double a);

  RowMapTables Tables() const;
  // Turns factors into those of a query or a key, or their gradients back: weights, whose roots
  // both sides have, and signs, which keys have.
  template <class T>
  void Weigh(FeatureRole role, T* factors) const {
    for (int64_t column = 0; mask_weight != nullptr && column < width; ++column) {
      const double weight = mask_weight[column % features], root = std::sqrt(std::fabs(weight));
      factors[column] *=
          static_cast<T>(role == FeatureRole::kKey ? std::copysign(root, weight) : root);
    }
    if (polynomial == nullptr || role == FeatureRole::kQuery) return;
    for (const PolynomialBlock& block : polynomial->blocks) {
      for (int64_t j = 0; block.coefficient < 0 && j < block.columns; ++j)
        factors[block.first + j] = -factors[block.first + j];
    }
  }
};

// What a FeatureConstants is made of.
struct FeatureParts {
  const MapEntry& map;
  int64_t dim;
  double epsilon = 0;
  double least_denominator = 0;  // of attention with these features
  std::vector<double> oprf_a;    // one for each entry; 0 for all maps but oprf
  // One ω for each entry, or one for all of them; none for a row map.
  std::vector<Omega> omega = {};
  double norm_slope = 0;      // added to the map's, by maps that take a width
  double argument_scale = 1;  // of these maps
  std::vector<std::vector<double>> mask_weights = {};  // masked maps: one for each ω, or none
  // Row maps only: the polynomial, and one table for each entry if it draws any.
  PolynomialShape polynomial = {};
  std::vector<std::vector<int32_t>> tables = {};
};

// A map with ω and A of every head: a plan keeps them once on the CPU, and once more on each GPU
// that uses it.
class FeatureConstants {
 public:
  explicit FeatureConstants(FeatureParts parts);
  ~FeatureConstants();
  FeatureConstants(const FeatureConstants&) = delete;
  FeatureConstants& operator=(const FeatureConstants&) = delete;

  const MapEntry& map() const { return *map_; }
  int64_t dim() const { return dim_; }
  int64_t features() const { return features_; }  // m, or the width of a row map
  int64_t omega_rows() const { return omega_[0].features; }
  int64_t width() const { return width_; }
  double epsilon() const { return epsilon_; }
  double least_denominator() const { return least_denominator_; }
  // Number of heads with constants of their own: all heads, or 1 that serves all.
  int64_t entries() const { return static_cast<int64_t>(oprf_a_.size()); }
  bool HasOmega() const { return !map_->IsRowMap(); }
  const PolynomialShape& polynomial() const { return polynomial_; }
  const std::vector<std::vector<int32_t>>& tables() const { return tables_; }
  const Omega& OmegaOf(int64_t entry) const {
    return omega_[omega_.size() == 1 ? 0 : static_cast<size_t>(entry)];
  }
  HeadFeatures Head(int64_t head) const;

  int64_t Bytes() const;  // size of ω and tables and what belongs to them
  // Whether both give the same features.
  bool Equals(const FeatureConstants& other) const;

  // The copy on the GPU of the context, made at first use.
  const cuda::DeviceFeatures& OnGpu(const Context& context) const;

 private:
  const MapEntry* map_;
  int64_t dim_, features_, width_;
  double epsilon_, least_denominator_, norm_slope_, argument_scale_;
  PolynomialShape polynomial_;
  std::vector<std::vector<int32_t>> tables_;                     // [entries] or none
  std::vector<Omega> omega_;                                     // [entries] or [1]; or rotations
  std::vector<std::unique_ptr<const cpu::PackedOmega>> packed_;  // like omega_
  std::vector<std::vector<double>> squared_norm_;                // like omega_; oprf only
  std::vector<double> oprf_a_;                                   // [entries]
  std::vector<std::vector<double>> mask_weights_;                // like omega_, or none

  mutable std::mutex mutex_;
  mutable std::map<int, std::shared_ptr<const cuda::DeviceFeatures>> on_gpu_;
};

// Rows of all heads: x [groups, length, dim], exponents and factors [groups, length, width], all
// contiguous and of one type; group g belongs to head g mod `heads`.
struct FeatureArguments {
  const FeatureConstants& constants;
  int64_t heads;
  ConstView x;
  View exponents;  // empty: not wanted, for row maps
  View factors;
  FeatureRole role = FeatureRole::kQuery;
};
struct FeatureGradients {
  const FeatureConstants& constants;
  int64_t heads;
  ConstView x;
  ConstView grad_exponents;  // not read for row maps
  ConstView grad_factors;
  View grad_x;
  FeatureRole role = FeatureRole::kQuery;
};

namespace reference {
void Features(const FeatureArguments& a, const Context& context);
void FeaturesBackward(const FeatureGradients& a, const Context& context);
// Single rows of one head; a row map may be given no exponents and no gradients of them.
void FeaturesOf(const HeadFeatures& head, FeatureRole role, const double* x, double* exponents,
                double* factors);
void FeatureGradientOf(const HeadFeatures& head, FeatureRole role, const double* x,
                       const double* grad_exponents, const double* grad_factors, double* grad_x);
}  // namespace reference
namespace cpu {
void Features(const FeatureArguments& a, const Context& context);
void FeaturesBackward(const FeatureGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void Features(const FeatureArguments& a, const Context& context);
std::shared_ptr<const DeviceFeatures> CopyFeatures(const FeatureConstants& constants,
                                                   const Context& context);
}  // namespace cuda

inline void Features(const FeatureArguments& a, const Context& context) {
  Run<FeatureArguments>({.name = "features",
                         .reference = reference::Features,
                         .cpu = cpu::Features,
                         .cuda = cuda::Features},
                        a.factors, a, context);
}
inline void FeaturesBackward(const FeatureGradients& a, const Context& context) {
  Run<FeatureGradients>({.name = "gradients of features",
                         .reference = reference::FeaturesBackward,
                         .cpu = cpu::FeaturesBackward,
                         .describe = OfGradients},
                        a.grad_x, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_FEATURES_H_
