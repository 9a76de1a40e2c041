// Exponents and factors on a GPU: a tiled product x·ωᵀ whose epilogue is the map. The formulas are
// those of kernels/maps/, compiled for the device.
#include "kernels/features.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "favor/error.h"
#include "kernels/cuda/device_features.h"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/project.h"
#include "maps_includes.h"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "features";
constexpr int kTile = 16;

struct Arguments {
  const float* x;               // [groups, length, d]
  const float* omega;           // [entries, m, d]
  const float* offset;          // [entries, m]
  const float* argument_scale;  // [entries]
  int64_t groups, length, features, dim, width;
  int64_t heads, entries;  // group g has head g mod heads, and that entry unless there is only one
  float epsilon;
  float* exponents;  // [groups, length, width]; null: not wanted
  float* factors;
  RowMapTables tables;    // row maps only, on the device
  bool has_keys = false;  // rows are keys
};

template <class Map>
__global__ void FeaturesKernel(const Arguments a) {
  constexpr int kParts = Map::kTraits.info.parts;
  constexpr float kNormSlope = static_cast<float>(Map::kTraits.norm_slope);
  __shared__ float tile_x[kTile][kTile], tile_omega[kTile][kTile + 1];
  // One axis of blocks, features fastest, then rows, then groups: the second axis of a grid is
  // limited to 65,535.
  const int64_t feature_tiles = (a.features + kTile - 1) / kTile;
  const int64_t row_tiles = (a.length + kTile - 1) / kTile;
  const int64_t tile = blockIdx.x / feature_tiles;
  const int64_t group = tile / row_tiles, row = tile % row_tiles * kTile + threadIdx.y;
  const int64_t first_feature = blockIdx.x % feature_tiles * kTile;
  const int64_t r = first_feature + threadIdx.x;
  const int64_t entry = a.entries == 1 ? 0 : group % a.heads;
  const float* omega = a.omega + entry * a.features * a.dim;
  const float* x = a.x + group * a.length * a.dim;
  float u = 0, half_norm = 0;
  for (int64_t begin = 0; begin < a.dim; begin += kTile) {
    const int64_t column = begin + threadIdx.x;
    const int64_t omega_row = first_feature + threadIdx.y;
    tile_x[threadIdx.y][threadIdx.x] =
        row < a.length && column < a.dim ? x[row * a.dim + column] : 0.0f;
    tile_omega[threadIdx.y][threadIdx.x] =
        omega_row < a.features && column < a.dim ? omega[omega_row * a.dim + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      const float value = tile_x[threadIdx.y][i];
      u += value * tile_omega[threadIdx.x][i];
      half_norm += value * value;
    }
    __syncthreads();
  }
  if (row >= a.length || r >= a.features) return;
  u *= a.argument_scale[entry];
  half_norm *= 0.5f;
  for (int part = 0; part < kParts; ++part) {
    const int64_t out = (group * a.length + row) * a.width + part * a.features + r;
    a.exponents[out] = Map::Exponent(u, part, a.epsilon) + kNormSlope * half_norm +
                       a.offset[entry * a.features + r];
    a.factors[out] = Map::Factor(u, part, a.epsilon);
  }
}

// One thread per row of a row map.
template <class Map>
__global__ void RowFeaturesKernel(const Arguments a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.groups * a.length) return;
  float* factors = a.factors + row * a.width;
  Map::Factors(a.x + row * a.dim, a.tables, factors);
  for (int64_t b = 0; a.has_keys && b < a.tables.block_count; ++b) {
    const PolynomialBlock& block = a.tables.blocks[b];
    for (int64_t j = 0; block.coefficient < 0 && j < block.columns; ++j)
      factors[block.first + j] = -factors[block.first + j];
  }
  for (int64_t i = 0; a.exponents != nullptr && i < a.width; ++i)
    a.exponents[row * a.width + i] = 0;
}

template <class Map>
void Launch(const Arguments& a, cudaStream_t stream) {
  if constexpr (Map::kTraits.info.takes_width ||
                (kIsRowMap<Map> && !std::is_base_of_v<MonomialMap, Map>)) {
    throw Error(ErrorCode::kUnavailable, kName,
                "the map '" + std::string(Map::kTraits.info.name) + "' runs on the cpu only");
  } else if constexpr (kIsRowMap<Map>) {
    constexpr int kThreads = 128;
    const int64_t blocks = (a.groups * a.length + kThreads - 1) / kThreads;
    RowFeaturesKernel<Map><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  } else {
    const int64_t tiles =
        a.groups * ((a.length + kTile - 1) / kTile) * ((a.features + kTile - 1) / kTile);
    const dim3 grid(static_cast<unsigned>(tiles));
    FeaturesKernel<Map><<<grid, dim3(kTile, kTile), 0, stream>>>(a);
  }
}

// In the order of MapEntry::index.
constexpr void (*kLaunch[])(const Arguments&, cudaStream_t) = {
#define FAVOR_ENTRY(Map) &Launch<Map>,
#include "maps.inc"
#undef FAVOR_ENTRY
};

bool IsBf16(float x) { return (std::bit_cast<uint32_t>(x) & 0xffffu) == 0; }

Tensor OnDevice(const std::vector<float>& values, const Device& device) {
  if (values.empty()) return {};
  Tensor host({static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), host.Data<float>());
  return host.To(device);
}

}  // namespace

std::shared_ptr<const DeviceFeatures> CopyFeatures(const FeatureConstants& constants,
                                                   const Context& context) {
  std::vector<float> omega, offset, argument_scale, log_normalizer, squared_norm, mask_weight;
  for (int64_t entry = 0; entry < constants.entries() && constants.HasOmega(); ++entry) {
    const HeadFeatures head = constants.Head(entry);
    for (const double value : reference::DenseRows(*head.omega))
      omega.push_back(static_cast<float>(value));
    for (int64_t r = 0; r < constants.features(); ++r) {
      offset.push_back(static_cast<float>(head.Offset(r)));
      if (head.squared_norm != nullptr)
        squared_norm.push_back(static_cast<float>(head.squared_norm[r]));
      if (head.mask_weight != nullptr)
        mask_weight.push_back(static_cast<float>(head.mask_weight[r]));
    }
    argument_scale.push_back(static_cast<float>(head.argument_scale));
    log_normalizer.push_back(static_cast<float>(head.log_normalizer));
  }
  const Device device = context.device();
  auto copy = std::make_shared<DeviceFeatures>();
  copy->omega = OnDevice(omega, device);
  copy->omega_is_bf16 = !omega.empty() && std::ranges::all_of(omega, IsBf16);
  copy->offset = OnDevice(offset, device);
  copy->argument_scale = OnDevice(argument_scale, device);
  copy->log_normalizer = OnDevice(log_normalizer, device);
  copy->squared_norm = OnDevice(squared_norm, device);
  copy->mask_weight = OnDevice(mask_weight, device);
  if (!constants.HasOmega()) {
    const PolynomialShape& shape = constants.polynomial();
    copy->tables = constants.Head(0).Tables();
    copy->tables.blocks = copy->blocks.Send(shape.blocks, context);
    copy->tables.runs = copy->runs.Send(shape.runs, context);
    copy->tables.table = nullptr;
    context.Wait();
  }
  return copy;
}

void Features(const FeatureArguments& a, const Context& context) {
  const cudaStream_t stream = StreamFor(kName, a.factors, context);
  const DeviceFeatures& device = a.constants.OnGpu(context);
  const auto data = [](const Tensor& tensor) {
    return tensor.empty() ? nullptr : tensor.Data<float>();
  };
  kLaunch[a.constants.map().index](
      {.x = a.x.Data<float>(),
       .omega = data(device.omega),
       .offset = data(device.offset),
       .argument_scale = data(device.argument_scale),
       .groups = a.x.size(0),
       .length = a.x.size(1),
       .features = a.constants.features(),
       .dim = a.constants.dim(),
       .width = a.constants.width(),
       .heads = a.heads,
       .entries = a.constants.entries(),
       .epsilon = static_cast<float>(a.constants.epsilon()),
       .exponents = a.exponents.empty() ? nullptr : a.exponents.Data<float>(),
       .factors = a.factors.Data<float>(),
       .tables = device.tables,
       .has_keys = a.role == FeatureRole::kKey},
      stream);
  Check(kName);
}

}  // namespace favor::kernels::cuda
