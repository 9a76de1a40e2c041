// Tiles of kLanes rows, transposed: [columns, kLanes]. Lanes past the last row are zero.
#ifndef FAVOR_KERNELS_CPU_TILE_H_
#define FAVOR_KERNELS_CPU_TILE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/project.h"

namespace favor::kernels::cpu {

inline void LoadTile(const float* rows, int64_t count, int64_t columns, float* tile) {
  if (count < kLanes) std::fill_n(tile, columns * kLanes, 0.0f);
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t i = 0; i < columns; ++i) tile[i * kLanes + lane] = rows[lane * columns + i];
  }
}

inline void StoreTile(const float* tile, int64_t count, int64_t columns, float* rows) {
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t i = 0; i < columns; ++i) rows[lane * columns + i] = tile[i * kLanes + lane];
  }
}

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_TILE_H_
