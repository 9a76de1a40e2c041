#include "kernels/map_table.h"

#include <type_traits>
#include <vector>

#include "maps_includes.h"

namespace favor::kernels {
namespace {

// Where the arguments of factors begin among those of exponents.
template <class Map, class T>
int64_t FactorArguments(const MapTile<T>& tile) {
  return kIsMasked<Map> ? tile.features * tile.lanes : 0;
}

template <class Map, class T>
void Evaluate(const MapTile<T>& tile, T* exponents, T* factors) {
  const int64_t other = FactorArguments<Map>(tile);
  for (int part = 0; part < Map::kTraits.info.parts; ++part) {
    const T* u = tile.u;
    for (int64_t r = 0; r < tile.features; ++r) {
      for (int64_t lane = 0; lane < tile.lanes; ++lane, ++u, ++exponents, ++factors) {
        *exponents = Map::Exponent(*u, part, tile.epsilon) + tile.offset[r];
        if (tile.norm_slope != 0)
          *exponents += tile.norm_slope * tile.half_norm[lane];  // 0·∞ is NaN
        *factors = Map::Factor(u[other], part, tile.epsilon);
      }
    }
  }
}

template <class Map, class T>
void Backward(const MapTile<T>& tile, const T* grad_exponents, const T* grad_factors, T* grad_u) {
  const int64_t count = tile.features * tile.lanes, other = FactorArguments<Map>(tile);
  for (int64_t i = 0; i < count + other; ++i) grad_u[i] = T(0);
  for (int part = 0; part < Map::kTraits.info.parts; ++part) {
    for (int64_t i = 0; i < count; ++i) {
      grad_u[i] += *grad_exponents++ * Map::ExponentSlope(tile.u[i], part, tile.epsilon);
      grad_u[i + other] +=
          *grad_factors++ * Map::FactorSlope(tile.u[i + other], part, tile.epsilon);
    }
  }
}

template <class Map>
constexpr MapEntry Entry(int index) {
  if constexpr (kIsRowMap<Map>) {
    return {.traits = &Map::kTraits,
            .index = index,
            .theory = nullptr,
            .linear = false,
            .flat = true,
            .masked = false,
            .row = {.coefficients = Map::kCoefficients,
                    .layout = Map::kLayout,
                    .evaluate = &Map::template Factors<double>,
                    .backward = &Map::template Backward<double>,
                    .unit_mse = &Map::UnitMse}};
  } else {
    return {.traits = &Map::kTraits,
            .index = index,
            .theory = &Map::Theory,
            .linear = std::is_base_of_v<LinearExponentMap, Map>,
            .flat = Map::kFlat,
            .masked = kIsMasked<Map>,
            .evaluate = &Evaluate<Map, double>,
            .backward = &Backward<Map, double>};
  }
}

enum MapIndex : int {
#define FAVOR_ENTRY(Map) k##Map,
#include "maps.inc"
#undef FAVOR_ENTRY
};

constexpr MapEntry kMaps[] = {
#define FAVOR_ENTRY(Map) Entry<Map>(k##Map),
#include "maps.inc"
#undef FAVOR_ENTRY
};

}  // namespace

std::span<const MapEntry> AllMaps() { return kMaps; }

const MapEntry* FindMap(std::string_view name) {
  for (const MapEntry& entry : kMaps) {
    if (entry.traits->info.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace favor::kernels

namespace favor {

std::span<const FeatureMapInfo> Maps() {
  static const std::vector<FeatureMapInfo> infos = [] {
    std::vector<FeatureMapInfo> list;
    for (const kernels::MapEntry& entry : kernels::AllMaps()) list.push_back(entry.traits->info);
    return list;
  }();
  return infos;
}

}  // namespace favor
