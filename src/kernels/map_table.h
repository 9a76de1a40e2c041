// The table of all maps, made from the files of kernels/maps/. A kernel calls a map on a tile
// through it, so that kernels are compiled once and not once per map. The CPU kernels have a table
// in the same order for each SIMD target (cpu/simd/features.cc).
#ifndef FAVOR_KERNELS_MAP_TABLE_H_
#define FAVOR_KERNELS_MAP_TABLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/map.h"

namespace favor::kernels {

// A tile of `lanes` rows, transposed. With parts = 2 there are 2m features.
template <class T>
struct MapTile {
  int64_t features;  // m
  int64_t lanes;
  const T* u;          // [m, lanes], B·ω·x; of masked maps [2m, lanes]
  const T* half_norm;  // [lanes], ‖x‖²/2
  const T* offset;     // [m], A‖ω_r‖²
  T epsilon;
  T norm_slope;
};

// A row map in double: factors [width] of a row x [dim], and grad_x from their gradients.
struct RowMapFunctions {
  std::span<const double> coefficients = {};  // of its polynomial; empty: the options say it
  TableLayout layout = TableLayout::kNone;
  void (*evaluate)(const double* x, const RowMapTables& tables, double* factors) = nullptr;
  void (*backward)(const double* x, const RowMapTables& tables, const double* grad_factors,
                   double* grad_x) = nullptr;
  // Mean squared error of a block of `columns` of one degree with the coefficient 1, if there is a
  // formula.
  std::optional<double> (*unit_mse)(const Pair& pair, int degree, int64_t columns, int64_t dim,
                                    bool rotated) = nullptr;
};

struct MapEntry {
  const MapTraits* traits;
  int index;                                   // in AllMaps(): how a GPU kernel names the map
  Moments (*theory)(const Pair&, const Law&);  // null for row maps
  bool linear;                                 // E = u and g = 1, in one part: u is the exponent
  bool flat;                                   // E does not depend on u
  bool masked;                                 // factors have arguments of their own
  // Exponents and factors in double, [parts·m, lanes].
  void (*evaluate)(const MapTile<double>&, double* exponents, double* factors);
  // grad_u [m, lanes] (masked maps: [2m, lanes]) from gradients with respect to exponents and
  // factors, [parts·m, lanes].
  void (*backward)(const MapTile<double>&, const double* grad_exponents, const double* grad_factors,
                   double* grad_u);
  RowMapFunctions row;  // row maps only; they have neither of the two above

  bool IsRowMap() const { return row.evaluate != nullptr; }
};

std::span<const MapEntry> AllMaps();             // in order of their file names
const MapEntry* FindMap(std::string_view name);  // null: no such map

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MAP_TABLE_H_
