#include "kernels/features.h"

#include "core/context_impl.h"
#include "core/parallel.h"
#include "kernels/cpu/tile.h"
#include "kernels/project.h"

namespace favor::kernels::cpu {
namespace {

// Loads up to kLanes rows and projects them. Memory: (d + m + padded_dim + 1)·kLanes floats.
struct RowTile {
  static int64_t Floats(const HeadFeatures& head) {
    return (head.omega.dim + head.omega.features + head.omega.padded_dim + 1) * kLanes;
  }

  RowTile(const HeadFeatures& head, const float* rows, int64_t count, float* memory)
      : x(memory),
        work(x + head.omega.dim * kLanes),
        half_norm(work + head.omega.padded_dim * kLanes),
        u(half_norm + kLanes) {
    const int64_t d = head.omega.dim, m = head.omega.features;
    LoadTile(rows, count, d, x);
    ProjectTile(head.omega, x, work, u);
    if (head.argument_scale != 1) {
      const auto scale = static_cast<float>(head.argument_scale);
      for (int64_t i = 0; i < m * kLanes; ++i) u[i] *= scale;
    }
    std::fill_n(half_norm, kLanes, 0.0f);
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t lane = 0; lane < kLanes; ++lane)
        half_norm[lane] += x[i * kLanes + lane] * x[i * kLanes + lane];
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) half_norm[lane] *= 0.5f;
    tile = {.features = m,
            .lanes = kLanes,
            .u = u,
            .half_norm = half_norm,
            .offset = head.offset_f32.data(),
            .epsilon = static_cast<float>(head.epsilon)};
  }

  float *x, *work, *half_norm, *u;
  MapTile<float> tile;
};

}  // namespace

void Features(const HeadFeatures& head, const float* x, int64_t rows, const Context& context,
              float* exponents, float* factors) {
  const int64_t d = head.omega.dim, width = head.Width();
  ParallelForBlocks(context, rows, kLanes, [&](int64_t begin, int64_t end) {
    const Scratch<float> scratch(context, RowTile::Floats(head) + 2 * width * kLanes);
    const RowTile tile(head, x + begin * d, end - begin, scratch.data());
    float* tile_exponents = scratch.data() + RowTile::Floats(head);
    float* tile_factors = tile_exponents + width * kLanes;
    head.map->evaluate_f32(tile.tile, tile_exponents, tile_factors);
    StoreTile(tile_exponents, end - begin, width, exponents + begin * width);
    StoreTile(tile_factors, end - begin, width, factors + begin * width);
  });
}

void FeaturesBackward(const HeadFeatures& head, const float* x, const float* grad_exponents,
                      const float* grad_factors, int64_t rows, const Context& context,
                      float* grad_x) {
  const int64_t d = head.omega.dim, m = head.omega.features, width = head.Width();
  const auto scale = static_cast<float>(head.argument_scale);
  const auto norm_slope = static_cast<float>(head.map->traits->norm_slope);
  ParallelForBlocks(context, rows, kLanes, [&](int64_t begin, int64_t end) {
    const Scratch<float> scratch(context, RowTile::Floats(head) + (2 * width + m + d) * kLanes);
    const RowTile tile(head, x + begin * d, end - begin, scratch.data());
    float* tile_exponents = scratch.data() + RowTile::Floats(head);
    float* tile_factors = tile_exponents + width * kLanes;
    float* grad_u = tile_factors + width * kLanes;
    float* tile_grad_x = grad_u + m * kLanes;
    LoadTile(grad_exponents + begin * width, end - begin, width, tile_exponents);
    LoadTile(grad_factors + begin * width, end - begin, width, tile_factors);
    head.map->backward_f32(tile.tile, tile_exponents, tile_factors, grad_u);
    for (int64_t i = 0; i < m * kLanes; ++i) grad_u[i] *= scale;
    ProjectTransposeTile(head.omega, grad_u, tile.work, tile_grad_x);
    float sum[kLanes] = {};
    for (int64_t r = 0; r < width; ++r) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += tile_exponents[r * kLanes + lane];
    }
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        tile_grad_x[i * kLanes + lane] += norm_slope * sum[lane] * tile.x[i * kLanes + lane];
      }
    }
    StoreTile(tile_grad_x, end - begin, d, grad_x + begin * d);
  });
}

}  // namespace favor::kernels::cpu
