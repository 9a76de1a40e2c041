// A few rows that join or read states in double as they are, as in decoding: one launch, which
// reads and writes each state once. The features of a head are shared by the blocks of a cluster;
// the first one adds up what they read, in order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/linear/few_checks.cuh"
#include "kernels/cuda/linear/few_rows.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "state";

template <int kRows>
__device__ void ClearSums(FewShared<kRows>& shared) {
  for (int row = 0; row < kRows; ++row) {
    for (int u = 0; u < 2; ++u) shared.sums[row][threadIdx.x * 2 + u] = 0;
    if (threadIdx.x < kFewColumns) shared.denominators[row][threadIdx.x] = 0;
    if (threadIdx.x == 0) shared.largest[row] = -INFINITY;
  }
}

// Keys join c and z of a share, of which a thread has a column, row by row.
template <bool kHasFactor, int kRows>
__device__ void JoinColumns(const Few& few, const Share& share, bool changes, double& c,
                            double (&z)[kRows], double (&reach)[kRows], FewShared<kRows>& shared) {
  const int i = threadIdx.x, width = share.width;
  const bool has_factor = kHasFactor && shared.map.has_factor;
  double sum = shared.z[i];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row >= few.rows) break;
    const int at = row * width + i;
    if (few.joins()) {
      const double before = c + shared.log_decay[row];
      const bool exists = shared.keys.numbers.exists[row] != 0;
      const double exponent = shared.keys.e[at] + shared.keys.numbers.shift[row];
      c = exists ? fmax(before, exponent) : before;
      float weight = exists ? Weight(exponent - c) : 0.0f;
      if (has_factor) weight *= shared.keys.g[at];
      double kept = before > -INFINITY ? 1 : 0;
      if (before > -INFINITY && before < c) kept = exp(before - c);  // seldom: maxima settle
      sum = kept * sum + weight;
      shared.factors[row][i].kept = kept;
      shared.factors[row][i].added = weight;
    }
    z[row] = sum;
    if (few.reads()) reach[row] = shared.queries.e[at] + c;
    if (i == 0 && share.first == 0) shared.has_keys[row] = c > -INFINITY;
  }
  if (!changes) return;
  const int64_t column = blockIdx.x / few.blocks * int64_t{few.a.map.width} + share.Column(i);
  few.states.c[column] = c;
  few.states.z[column] = sum;
}

// c and z of a share and the factors of its columns. `before`: what the sums so far count from now
// on.
template <bool kHasFactor, int kRows>
__device__ void WeighColumns(const Few& few, const Share& share, bool changes,
                             double (&before)[kRows], FewShared<kRows>& shared) {
  const int i = threadIdx.x, warp = threadIdx.x / kLanes;
  const bool works = i < share.width;
  double c = -INFINITY, z[kRows] = {}, reach[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) reach[row] = -INFINITY;
  if (works) {
    c = shared.c[i];
    JoinColumns<kHasFactor>(few, share, changes, c, z, reach, shared);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const double largest = MaxOfWarp(reach[row]);
    if (threadIdx.x % kLanes == 0) shared.of_warps[row][warp] = largest;
  }
  __syncthreads();
  if (!few.reads()) return;
  double largest[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row >= few.rows) break;
    largest[row] = shared.largest[row];
    for (int w = 0; w < kWarps; ++w) largest[row] = fmax(largest[row], shared.of_warps[row][w]);
    before[row] = shared.largest[row] > -INFINITY ? exp(shared.largest[row] - largest[row]) : 0;
    if (i >= kFewColumns) continue;
    double& denominator = shared.denominators[row][i];
    denominator *= before[row];
    if (!works) continue;
    float weight = largest[row] > -INFINITY ? Weight(reach[row] - largest[row]) : 0.0f;
    if (kHasFactor && shared.map.has_factor) weight *= shared.queries.g[row * share.width + i];
    shared.factors[row][i].read = weight;
    denominator += weight * z[row];
  }
  __syncthreads();
  if (i > 0) return;
#pragma unroll
  for (int row = 0; row < kRows; ++row)
    if (row < few.rows) shared.largest[row] = largest[row];
}

// The sums of a share, once: keys join, queries read.
template <int kRows, int kUnit, bool kOnePart>
__device__ void StreamSums(const Few& few, const Share& share, bool changes,
                           const FewUnits<kRows, kUnit, kOnePart>& units,
                           const double (&before)[kRows], FewShared<kRows>& shared) {
  constexpr int kAhead = kFewAhead<kRows>;
  const bool joins = few.joins(), reads = few.reads();
  double value[kRows][kUnit] = {}, sums[kRows][kUnit] = {};
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row >= few.rows) break;
    for (int u = 0; u < kUnit; ++u) {
      if (joins) value[row][u] = shared.value[row * few.a.value_dim + units.FirstValue(few) + u];
      if (reads) sums[row][u] = before[row] * shared.sums[row][threadIdx.x * kUnit + u];
    }
  }
  for (int n = 0; n * units.row_lanes < share.width; ++n) {
    ahead::Wait<kAhead - 1>();
    if (units.Exists(share, n)) {
      double s[kUnit];
      for (int u = 0; u < kUnit; ++u) s[u] = units.Ahead(shared, n)[u];
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (row >= few.rows) break;
        const ColumnFactors& factors = shared.factors[row][units.Row(n)];
        for (int u = 0; u < kUnit; ++u) {
          if (joins) s[u] = factors.kept * s[u] + factors.added * value[row][u];
          if (reads) sums[row][u] += factors.read * s[u];
        }
      }
      if (changes) {
        double* to = units.Sums(few, share, n);
        if constexpr (kUnit == 2) {
          *reinterpret_cast<double2*>(to) = make_double2(s[0], s[1]);
        } else {
          *to = s[0];
        }
      }
    }
    units.LoadAhead(few, share, n + kAhead, shared);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row)
    for (int u = 0; u < kUnit; ++u) shared.sums[row][threadIdx.x * kUnit + u] = sums[row][u];
}

// Where block `rank` leaves what it read of a row: N, then ρ and D.
template <int kRows>
__device__ double* SumsOfBlock(const Few& few, int rank, int row, FewShared<kRows>& shared) {
  return reinterpret_cast<double*>(&shared + 1) + (rank * kRows + row) * (few.a.value_dim + 2);
}

// Adds up the sums of the threads of a block and leaves them with the first block of the head.
template <int kRows>
__device__ void LeaveSums(const Few& few, int rank, int row_lanes, FewShared<kRows>& shared) {
  const int dv = few.a.value_dim;
  __syncthreads();
  for (int row = 0; row < few.rows; ++row) {
    double* to = BlockCluster::Of(SumsOfBlock(few, rank, row, shared), 0);
    for (int v = threadIdx.x; v < dv; v += kBlockThreads) {
      double sum = 0;
      for (int lane = 0; lane < row_lanes; ++lane) sum += shared.sums[row][lane * dv + v];
      to[v] = sum;
    }
    if (threadIdx.x < kBlockThreads - kLanes) continue;
    double denominator = 0;
    for (int i = threadIdx.x % kLanes; i < kFewColumns; i += kLanes)
      denominator += shared.denominators[row][i];
    denominator = SumOfWarp(denominator);
    if (threadIdx.x % kLanes > 0) continue;
    to[dv] = shared.largest[row];
    to[dv + 1] = denominator;
  }
}

// What the blocks of a head have read, added up in order and stored.
template <int kRows>
__device__ void StoreFew(const Few& few, FewShared<kRows>& shared) {
  const int dv = few.a.value_dim;
  for (int i = threadIdx.x; i < few.blocks * few.rows; i += kBlockThreads) {
    const int block = i / few.rows, row = i % few.rows;
    double largest = -INFINITY;
    for (int b = 0; b < few.blocks; ++b)
      largest = fmax(largest, SumsOfBlock(few, b, row, shared)[dv]);
    const double own = SumsOfBlock(few, block, row, shared)[dv];
    shared.scale[block][row] = own > -INFINITY ? exp(own - largest) : 0;
    if (block == 0) shared.largest[row] = largest;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < few.rows * (dv + 1); i += kBlockThreads) {
    const int row = i / (dv + 1), v = i % (dv + 1), at = v < dv ? v : dv + 1;
    double sum = 0;
    for (int b = 0; b < few.blocks; ++b)
      sum += shared.scale[b][row] * SumsOfBlock(few, b, row, shared)[at];
    SumsOfBlock(few, 0, row, shared)[at] = sum;
  }
  shared.counts.Clear();
  const int row = threadIdx.x / kLanes;
  if (row < few.rows) {
    const RowNumbers& numbers = shared.queries.numbers;
    const double* sums = SumsOfBlock(few, 0, row, shared);
    StoreOutputRow(
        few.a, shared.head, row,
        {.has_keys = shared.has_keys[row],
         .log_scale = shared.largest[row] + numbers.shift[row] + numbers.log_factor[row],
         .denominator = sums[dv + 1]},
        [&](int v) { return sums[v]; }, shared.counts);
  }
  shared.counts.AddTo(few.a.tally);
}

// kUnit: neighbouring values that are loaded at once. kIsLinear: a map without factors whose
// exponents are ω·x and an offset, which is most of decoding; the others take much more code.
template <int kRows, int kUnit, bool kIsLinear>
__global__ void __launch_bounds__(kBlockThreads, kRows == 1 ? 3 : 1)
    FewKernel(const __grid_constant__ Few few) {
  extern __shared__ __align__(16) unsigned char memory[];
  FewShared<kRows>& shared = *reinterpret_cast<FewShared<kRows>*>(memory);
  const Call& a = few.a;
  const int rank = static_cast<int>(blockIdx.x) % few.blocks;
  const int64_t group = blockIdx.x / few.blocks;
  const int features = a.map.is_row_map ? a.map.width : a.map.features,
            parts = a.map.width / features, own = (features + few.blocks - 1) / few.blocks,
            begin = rank * own, end = min(begin + own, features);
  const auto share_at = [&](int first) {
    const int count = max(0, min(kFewColumns / parts, end - first));
    return Share{first, count, features, parts * count};
  };
  const FewUnits<kRows, kUnit, kIsLinear> units(few, group);
  LoadStateAhead(few, group, share_at(begin), units, shared);
  if (threadIdx.x == 2 * kLanes) shared.refused = rank == 0 && few.joins() && a.tally->unusable > 0;
  BlockCluster::Arrive();
  const Head head(a, group);
  FewOmega<kIsLinear> omega(few, head, share_at(begin));
  if (threadIdx.x == 0) shared.head = head;
  if (!kIsLinear && threadIdx.x == 3 * kLanes)
    SetMap(a, head, share_at(begin), shared.map, shared.constants);
  LoadFewRows(few, head, shared);
  ClearSums(shared);
  const bool is_unusable = AnyUnusable(few);
  bool has_waited = false, changes = false;
  for (int first = begin; !is_unusable && first < end; first += kFewColumns / parts) {
    const Share share = share_at(first);
    if (first > begin) {
      LoadStateAhead(few, group, share, units, shared);
      omega = FewOmega<kIsLinear>(few, shared.head, share);
      if (!kIsLinear && threadIdx.x == 0)
        SetMap(a, shared.head, share, shared.map, shared.constants);
      __syncthreads();
    }
    omega.Multiply(few, share, shared);
    if constexpr (kIsLinear) {
      __syncthreads();
    } else {
      FindFewFeatures(few, shared);
    }
    if (!has_waited) {
      BlockCluster::Wait();
      has_waited = true;
      changes = few.joins() && !*BlockCluster::Of(&shared.refused, 0);
    }
    ahead::Wait<kFewAhead<kRows>>();
    double before[kRows];
    WeighColumns<!kIsLinear>(few, share, changes, before, shared);
    StreamSums(few, share, changes, units, before, shared);
    __syncthreads();
  }
  if (!has_waited) BlockCluster::Wait();
  if (few.reads() && !is_unusable) LeaveSums(few, rank, units.row_lanes, shared);
  ahead::Wait<0>();
  BlockCluster::Arrive();
  BlockCluster::Wait();
  if (rank > 0 || is_unusable || (few.joins() && shared.refused)) return;
  if (few.reads()) StoreFew(few, shared);
  if (threadIdx.x > 0 || !few.joins()) return;
  for (int row = 0; row < few.rows; ++row) {
    few.states.tokens[group] += shared.keys.numbers.exists[row];
    few.states.log_decay[group] += shared.log_decay[row];
  }
}

// Blocks for each head, by shape alone: none has less than kLeast bytes of sums, and as many as
// fill a GPU, or as leave no block more than kMost. What a block does besides takes as long as
// tens of KB.
int BlocksOfHead(const Call& a) {
  constexpr int64_t kLeast = 8 << 10, kMost = 64 << 10, kFilled = 128;
  const int64_t features = a.map.is_row_map ? a.map.width : a.map.features;
  const int64_t bytes = int64_t{a.map.width} * a.value_dim * 8;
  int64_t blocks = 1;
  const auto is_worth = [&](int64_t more) {
    return more <= kMostClusterBlocks && more <= features && bytes / more >= kLeast &&
           (a.groups * more <= kFilled || bytes / blocks > kMost);
  };
  if (!HasBlockClusters(kName)) return 1;
  while (is_worth(2 * blocks)) blocks *= 2;
  return static_cast<int>(blocks);
}

// Has the inputs checked in the launch itself, if they are so few that every block can do it.
bool CheckWithin(const AttentionProblem& problem, const Call& a, Few& few) {
  const int lanes = LanesOf(std::max(problem.dim, problem.value_dim));
  if (a.key_mean.data != nullptr || CheckedRows(a, few.rows) * lanes > 4 * kBlockThreads)
    return false;
  few.checked_lanes = lanes;
  few.has_vectors = HasVectors(problem.q) && HasVectors(problem.k) && HasVectors(problem.v);
  few.largest = static_cast<float>(
      std::min(LargestElement(problem), double{std::numeric_limits<float>::max()}));
  return true;
}

template <int kRows, int kUnit, bool kIsLinear>
void LaunchRows(const Few& few, const Context& context) {
  const int64_t sums = int64_t{few.blocks} * kRows * (few.a.value_dim + 2),
                bytes = static_cast<int64_t>(sizeof(FewShared<kRows>)) + sums * 8;
  LaunchClusters(kName, FewKernel<kRows, kUnit, kIsLinear>, few.a.groups * few.blocks, few.blocks,
                 kBlockThreads, bytes, few, context);
}

template <bool kIsLinear>
void LaunchMap(const Few& few, const Context& context) {
  const bool has_pairs = few.a.value_dim % 2 == 0;
  if (few.rows == 1) {
    has_pairs ? LaunchRows<1, 2, kIsLinear>(few, context)
              : LaunchRows<1, 1, kIsLinear>(few, context);
  } else {
    has_pairs ? LaunchRows<kFewRows, 2, kIsLinear>(few, context)
              : LaunchRows<kFewRows, 1, kIsLinear>(few, context);
  }
}

void Launch(Few few, const Context& context) {
  few.has_omega_packets =
      few.a.dim % 4 == 0 && reinterpret_cast<uintptr_t>(few.a.map.omega) % 16 == 0;
  if (few.a.map.is_linear && few.a.oprf_a.data == nullptr) {
    LaunchMap</*kIsLinear=*/true>(few, context);
  } else {
    LaunchMap</*kIsLinear=*/false>(few, context);
  }
}

}  // namespace

void AppendFew(const Call& a, const GroupStates& states, const Context& context) {
  Launch({.a = a,
          .states = states,
          .work = FewWork::kAppend,
          .rows = static_cast<int>(a.key_length),
          .blocks = BlocksOfHead(a)},
         context);
}
void ReadFew(const Call& a, const GroupStates& states, const Context& context) {
  Launch({.a = a,
          .states = states,
          .work = FewWork::kRead,
          .rows = static_cast<int>(a.query_length),
          .blocks = BlocksOfHead(a)},
         context);
}
void CausalFew(const LinearArguments& arguments, const Call& a, const GroupStates& states,
               const Context& context) {
  Few few{.a = a,
          .states = states,
          .work = FewWork::kCausal,
          .rows = static_cast<int>(a.key_length),
          .blocks = BlocksOfHead(a)};
  const AttentionProblem& problem = arguments.call.problem;
  if (arguments.call.checks_inputs && !CheckWithin(problem, a, few)) {
    CountUnusable(
        {.problem = problem, .key_mean = arguments.heads.key_mean, .tally = arguments.call.tally},
        context);
  }
  Launch(few, context);
}

}  // namespace favor::kernels::cuda::general
