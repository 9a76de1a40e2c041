// Features of up to a chunk of rows, as tiles [width, kLanes] of exponents and factors.
//
// Exponents are kept relative to a base in double, so that float rounding is of their differences
// and not of ‖x‖²/2, which is 256 already at standard deviation 8 and d = 64: E = exponent + base +
// norm_slope·(row's own half norm, for queries).
#ifndef FAVOR_KERNELS_CPU_FEATURE_PANEL_H_
#define FAVOR_KERNELS_CPU_FEATURE_PANEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/context_impl.h"
#include "kernels/cpu/tile.h"
#include "kernels/features.h"
#include "kernels/project.h"

namespace favor::kernels::cpu {

class FeaturePanel {
 public:
  FeaturePanel(const HeadFeatures& head, int64_t max_rows, const Context& context)
      : head_(head),
        tiles_((max_rows + kLanes - 1) / kLanes),
        memory_(context, (2 * tiles_ * head.Width() + head.omega.dim + head.omega.padded_dim +
                          head.omega.features + 1) *
                             kLanes),
        half_norm_(static_cast<size_t>(max_rows)) {}

  // Queries: their norms go into RowBase, since a constant of a row cancels.
  void ComputeQueries(const ConstView& rows, int64_t begin, int64_t count, double scale) {
    for (int64_t tile = 0; tile * kLanes < count; ++tile) {
      LoadAndProject(rows, begin, count, tile, nullptr, scale, nullptr);
      std::fill_n(lane_norms(), kLanes, 0.0f);
      Evaluate(tile);
    }
  }

  // Keys: relative to the row with the largest exponent. Masked keys and missing lanes have the
  // exponent −∞.
  void ComputeKeys(const ConstView& rows, int64_t begin, int64_t count, const double* mean,
                   double scale, const float* mask) {
    const double slope = head_.map->traits->norm_slope;
    base_ = 0;
    bool any = false;
    for (int64_t tile = 0; tile * kLanes < count; ++tile) {
      LoadAndProject(rows, begin, count, tile, mean, scale, mask);
      // The tile's own base first: the panel's is known only after the last tile.
      double tile_norm = 0;
      bool tile_any = false;
      const int64_t lanes = std::min(kLanes, count - tile * kLanes);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        if (IsMasked(mask, begin + tile * kLanes + lane)) continue;
        const double norm = HalfNorm(tile * kLanes + lane);
        tile_norm = !tile_any   ? norm
                    : slope < 0 ? std::min(tile_norm, norm)
                                : std::max(tile_norm, norm);
        tile_any = true;
      }
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lane_norms()[lane] =
            lane < lanes ? static_cast<float>(HalfNorm(tile * kLanes + lane) - tile_norm) : 0.0f;
      }
      Evaluate(tile);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        if (lane < lanes && !IsMasked(mask, begin + tile * kLanes + lane)) continue;
        for (int64_t r = 0; r < head_.Width(); ++r) Exponents(tile)[r * kLanes + lane] = -INFINITY;
      }
      const double tile_base = slope * tile_norm;
      if (tile_any && !any) base_ = tile_base;
      if (tile_any && tile_base > base_) {
        for (int64_t earlier = 0; earlier < tile; ++earlier) Shift(earlier, base_ - tile_base);
        base_ = tile_base;
      } else if (tile_any) {
        Shift(tile, tile_base - base_);
      }
      any = any || tile_any;
    }
  }

  double base() const { return base_; }
  // norm_slope·‖x‖²/2 of a query row.
  double RowBase(int64_t row) const { return head_.map->traits->norm_slope * HalfNorm(row); }
  float* Exponents(int64_t tile) const {
    return memory_.data() + 2 * tile * head_.Width() * kLanes;
  }
  float* Factors(int64_t tile) const { return Exponents(tile) + head_.Width() * kLanes; }

 private:
  static bool IsMasked(const float* mask, int64_t row) { return mask != nullptr && mask[row] == 0; }
  double HalfNorm(int64_t row) const { return half_norm_[static_cast<size_t>(row)]; }

  float* work() const { return memory_.data() + 2 * tiles_ * head_.Width() * kLanes; }
  float* tile_x() const { return work() + head_.omega.padded_dim * kLanes; }
  float* tile_u() const { return tile_x() + head_.omega.dim * kLanes; }
  float* lane_norms() const { return tile_u() + head_.omega.features * kLanes; }

  void LoadAndProject(const ConstView& rows, int64_t begin, int64_t count, int64_t tile,
                      const double* mean, double scale, const float* mask) {
    const int64_t lanes = std::min(kLanes, count - tile * kLanes), d = head_.omega.dim;
    LoadTile(rows, begin + tile * kLanes, lanes, mean, scale, tile_x());
    for (int64_t lane = 0; lane < lanes; ++lane) {
      // A masked key's numbers must not reach a product: 0·∞ is NaN.
      if (IsMasked(mask, begin + tile * kLanes + lane)) {
        for (int64_t i = 0; i < d; ++i) tile_x()[i * kLanes + lane] = 0;
      }
      double square = 0;
      for (int64_t i = 0; i < d; ++i) {
        const double x = tile_x()[i * kLanes + lane];
        square += x * x;
      }
      half_norm_[static_cast<size_t>(tile * kLanes + lane)] = square / 2;
    }
    ProjectTile(head_.omega, tile_x(), work(), tile_u());
    if (head_.argument_scale == 1) return;
    const auto factor = static_cast<float>(head_.argument_scale);
    for (int64_t i = 0; i < head_.omega.features * kLanes; ++i) tile_u()[i] *= factor;
  }

  void Evaluate(int64_t tile) const {
    head_.map->evaluate_f32({.features = head_.omega.features,
                             .lanes = kLanes,
                             .u = tile_u(),
                             .half_norm = lane_norms(),
                             .offset = head_.offset_f32.data(),
                             .epsilon = static_cast<float>(head_.epsilon)},
                            Exponents(tile), Factors(tile));
  }

  void Shift(int64_t tile, double by) const {
    if (by == 0) return;
    const auto shift = static_cast<float>(by);
    for (int64_t i = 0; i < head_.Width() * kLanes; ++i) Exponents(tile)[i] += shift;
  }

  const HeadFeatures& head_;
  int64_t tiles_;
  Scratch<float> memory_;
  std::vector<double> half_norm_;
  double base_ = 0;
};

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_FEATURE_PANEL_H_
