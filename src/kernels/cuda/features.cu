// Exponents and factors on a GPU: a tiled product x·ωᵀ whose epilogue is the map. The formulas are
// those of kernels/maps/, compiled for the device.
#include "kernels/features.h"

#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/project.h"
#include "maps_includes.h"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "features";
constexpr int kTile = 16;

struct Arguments {
  const float* x;       // [rows, d]
  const float* omega;   // [m, d]
  const float* offset;  // [m]
  int64_t rows, features, dim;
  float epsilon, argument_scale;
  float* exponents;  // [rows, parts·m]
  float* factors;
};

template <class Map>
__global__ void FeaturesKernel(const Arguments a) {
  constexpr int kParts = Map::kTraits.info.parts;
  constexpr float kNormSlope = static_cast<float>(Map::kTraits.norm_slope);
  __shared__ float tile_x[kTile][kTile], tile_omega[kTile][kTile + 1];
  // One axis of blocks, features fastest: the second axis of a grid ends at 65,535.
  const int64_t feature_tiles = (a.features + kTile - 1) / kTile;
  const int64_t row = blockIdx.x / feature_tiles * kTile + threadIdx.y;
  const int64_t first_feature = blockIdx.x % feature_tiles * kTile;
  const int64_t r = first_feature + threadIdx.x;
  float u = 0, half_norm = 0;
  for (int64_t begin = 0; begin < a.dim; begin += kTile) {
    const int64_t column = begin + threadIdx.x;
    const int64_t omega_row = first_feature + threadIdx.y;
    tile_x[threadIdx.y][threadIdx.x] =
        row < a.rows && column < a.dim ? a.x[row * a.dim + column] : 0.0f;
    tile_omega[threadIdx.y][threadIdx.x] =
        omega_row < a.features && column < a.dim ? a.omega[omega_row * a.dim + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      const float value = tile_x[threadIdx.y][i];
      u += value * tile_omega[threadIdx.x][i];
      half_norm += value * value;
    }
    __syncthreads();
  }
  if (row >= a.rows || r >= a.features) return;
  u *= a.argument_scale;
  half_norm *= 0.5f;
  for (int part = 0; part < kParts; ++part) {
    const int64_t out = row * kParts * a.features + part * a.features + r;
    a.exponents[out] = Map::Exponent(u, part, a.epsilon) + kNormSlope * half_norm + a.offset[r];
    a.factors[out] = Map::Factor(u, part, a.epsilon);
  }
}

template <class Map>
void Launch(const Arguments& a, cudaStream_t stream) {
  const int64_t tiles = ((a.rows + kTile - 1) / kTile) * ((a.features + kTile - 1) / kTile);
  const dim3 grid(static_cast<unsigned>(tiles));
  FeaturesKernel<Map><<<grid, dim3(kTile, kTile), 0, stream>>>(a);
}

// In the order of MapEntry::index.
constexpr void (*kLaunch[])(const Arguments&, cudaStream_t) = {
#define FAVOR_ENTRY(Map) &Launch<Map>,
#include "maps.inc"
#undef FAVOR_ENTRY
};

// Constants of a head on the device for the kernels of one call. The values have been read when
// this returns: they are not in pinned memory.
class DeviceCopy {
 public:
  DeviceCopy(const std::vector<float>& values, const Context& context, cudaStream_t stream)
      : scratch_(context, static_cast<int64_t>(values.size())) {
    Check(kName, cudaMemcpyAsync(scratch_.data(), values.data(), values.size() * sizeof(float),
                                 cudaMemcpyHostToDevice, stream));
  }
  const float* data() const { return scratch_.data(); }

 private:
  DeviceScratch<float> scratch_;
};

}  // namespace

void Features(const HeadFeatures& head, const float* x, int64_t rows, const Context& context,
              float* exponents, float* factors) {
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const std::vector<double> dense = reference::DenseRows(head.omega);
  const DeviceCopy omega(std::vector<float>(dense.begin(), dense.end()), context, stream);
  const DeviceCopy offset(head.offset_f32, context, stream);
  kLaunch[head.map->index]({.x = x,
                            .omega = omega.data(),
                            .offset = offset.data(),
                            .rows = rows,
                            .features = head.omega.features,
                            .dim = head.omega.dim,
                            .epsilon = static_cast<float>(head.epsilon),
                            .argument_scale = static_cast<float>(head.argument_scale),
                            .exponents = exponents,
                            .factors = factors},
                           stream);
  Check(kName);
}

}  // namespace favor::kernels::cuda
