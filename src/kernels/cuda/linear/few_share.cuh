// A share of the features of a head for a few rows: what a thread block of few.cu has in shared
// memory, and how it gets there.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_FEW_SHARE_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_FEW_SHARE_CUH_

#include "kernels/cuda/linear/rows.cuh"
#include "kernels/cuda/linear/store.cuh"
#include "kernels/cuda/parts/block_cluster.cuh"
#include "kernels/cuda/parts/copies_ahead.cuh"

namespace favor::kernels::cuda::general {

constexpr int kFewColumns = 128;  // of features, done at a time
// Loads of sums that a thread has under way. More rows leave less shared memory.
template <int kRows>
constexpr int kFewAhead = kRows == 1 ? 8 : 4;

enum class FewWork : uint8_t {
  kAppend,
  kRead,
  kCausal,  // each key joins, then the query of its row reads
};

// One launch. The features of a head are shared by the blocks of a cluster, a range each.
struct Few {
  Call a;
  GroupStates states;
  FewWork work;
  int rows, blocks;       // of a head
  int checked_lanes = 0;  // threads that check a row of the inputs; 0: the inputs are not checked
  bool has_vectors = false;        // in all inputs
  float largest = 0;               // element of a query or key
  bool has_omega_packets = false;  // rows of ω are whole packets of 16 bytes

  __device__ bool joins() const { return work != FewWork::kRead; }
  __device__ bool reads() const { return work != FewWork::kAppend; }
};

// Features first … first + count − 1, which a block does at a time; columns of row maps count as
// features.
struct Share {
  int first, count, features;  // of all features of the head
  int width;                   // columns: `count` for every part of the map

  __device__ int Column(int i) const {
    return width == count ? first + i : i / count * features + first + i % count;
  }
};

// What a column does to the sums of a row: s ← kept·s + added·v, N += read·s.
struct ColumnFactors {
  double kept, added, read;
};

template <int kRows>
struct FewSide {
  RowNumbers numbers;
  alignas(16) float x[kRows * kMostColumns];
  float e[kRows * kFewColumns], g[kRows * kFewColumns];
  float u[kRows * kFewColumns * 2];  // masked maps have two rows of ω per feature
};

template <int kRows>
struct FewShared {
  alignas(16) double ahead[kFewAhead<kRows>][kBlockThreads * 2];
  // What threads have read so far: N, which is [row lanes, value_dim], and what columns add to D,
  // relative to e^largest.
  alignas(16) double sums[kRows][kBlockThreads * 2];
  double denominators[kRows][kFewColumns], largest[kRows];
  double c[kFewColumns], z[kFewColumns];
  ColumnFactors factors[kRows][kFewColumns];
  FewSide<kRows> queries, keys;
  float value[kRows * kMostColumns];
  double log_decay[kRows];
  double of_warps[kRows][kWarps];
  double scale[kMostClusterBlocks][kRows];  // what the sums of a block count
  bool has_keys[kRows];
  bool refused;  // in the first block of a head
  BlockCounts counts;
  Head head;
  HeadConstants constants;  // of the share; ω of the head
  MapConstants map;         // of the share
};

// The sums of a head in units of one or two neighbouring values, of which a thread has a column:
// rows row_lane, row_lane + row_lanes, … of a share. kOnePart: of a map of one part.
template <int kRows, int kUnit, bool kOnePart>
struct FewUnits {
  using Shared = FewShared<kRows>;
  static constexpr int kAhead = kFewAhead<kRows>;

  __device__ FewUnits(const Few& few, int64_t group)
      : row_lanes(kBlockThreads / (few.a.value_dim / kUnit)),
        row_lane(threadIdx.x / (few.a.value_dim / kUnit)),
        sums(few.states.s + group * few.a.map.width * few.a.value_dim + FirstValue(few)) {}

  __device__ int FirstValue(const Few& few) const {
    return (threadIdx.x - row_lane * (few.a.value_dim / kUnit)) * kUnit;
  }
  // Of the n-th row of a share, which may not exist.
  __device__ int Row(int n) const { return row_lane + n * row_lanes; }
  __device__ bool Exists(const Share& share, int n) const {
    return row_lane < row_lanes && Row(n) < share.width;
  }
  __device__ double* Sums(const Few& few, const Share& share, int n) const {
    const int column = kOnePart ? share.first + Row(n) : share.Column(Row(n));
    return sums + column * few.a.value_dim;
  }
  __device__ double* Ahead(Shared& shared, int n) const {
    return shared.ahead[n % kAhead] + threadIdx.x * kUnit;
  }
  __device__ void LoadAhead(const Few& few, const Share& share, int n, Shared& shared) const {
    if (Exists(share, n))
      ahead::Copy<kUnit * sizeof(double)>(Ahead(shared, n), Sums(few, share, n));
    ahead::Commit();
  }

  int row_lanes, row_lane;
  double* sums;
};

// Begins to load the state of a share: first maxima and z, of which a thread has a column, then
// sums.
template <int kRows, int kUnit, bool kOnePart>
__device__ void LoadStateAhead(const Few& few, int64_t group, const Share& share,
                               const FewUnits<kRows, kUnit, kOnePart>& units,
                               FewShared<kRows>& shared) {
  const int i = threadIdx.x;
  if (i < share.width) {
    const int64_t column = group * few.a.map.width + share.Column(i);
    ahead::Copy<sizeof(double)>(&shared.c[i], few.states.c + column);
    ahead::Copy<sizeof(double)>(&shared.z[i], few.states.z + column);
  }
  ahead::Commit();
#pragma unroll
  for (int n = 0; n < kFewAhead<kRows>; ++n) units.LoadAhead(few, share, n, shared);
}

// The map of a share is one with fewer features.
__device__ inline void SetMap(const Call& a, const Head& head, const Share& share,
                              MapConstants& map, HeadConstants& constants) {
  const bool is_row_map = a.map.is_row_map;
  map = a.map;
  map.features = share.count;
  map.width = share.width;
  map.omega_rows = is_row_map ? 0 : share.count * (a.map.omega_rows / a.map.features);
  map.first_column = is_row_map ? share.first : 0;
  constants = HeadConstants(a, head);
  if (is_row_map) return;
  constants.offset += share.first;
  if (constants.mask_weight != nullptr) constants.mask_weight += share.first;
  if (constants.squared_norm != nullptr) constants.squared_norm += share.first;
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_FEW_SHARE_CUH_
