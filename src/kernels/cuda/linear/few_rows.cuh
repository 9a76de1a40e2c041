// The rows of a block of few.cu and their features. Loads are on their way together: a block of one
// token is a chain of them, and as long as they wait for each other no sums move.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_FEW_ROWS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_FEW_ROWS_CUH_

#include "kernels/cuda/linear/few_share.cuh"

namespace favor::kernels::cuda::general {

// Calls use(column, element) for the columns that a lane has in a row, after several are loaded.
template <class Use>
__device__ void ForColumns(const Array& array, int64_t at, int columns, const Use& use) {
  constexpr int kAtOnce = 4;
  for (int first = threadIdx.x % kLanes; first < columns; first += kAtOnce * kLanes) {
    double elements[kAtOnce];
    const auto load = [&](const auto* data, const auto& to_double) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int column = first + i * kLanes;
        elements[i] = column < columns ? to_double(data[at + column * array.column]) : 0.0;
      }
    };
    switch (array.type) {
      case DataType::kF32:
        load(static_cast<const float*>(array.data), [](float x) { return double{x}; });
        break;
      case DataType::kF64:
        load(static_cast<const double*>(array.data), [](double x) { return x; });
        break;
      case DataType::kF16:
        load(static_cast<const __half*>(array.data),
             [](__half x) { return double{__half2float(x)}; });
        break;
      case DataType::kBF16:
        load(static_cast<const __nv_bfloat16*>(array.data),
             [](__nv_bfloat16 x) { return double{__bfloat162float(x)}; });
        break;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i * kLanes < columns) use(first + i * kLanes, elements[i]);
  }
}

// A row by a warp, as LoadQueries.
template <int kRows>
__device__ void LoadFewQuery(const Call& a, const Head& head, int row, FewSide<kRows>& queries) {
  const int64_t entry = a.map.entries == 1 ? 0 : head.head,
                mean = a.key_mean.At(head.batch, head.head, 0);
  double log_normalizer = a.map.is_row_map ? 0 : a.map.log_normalizer[entry];
  if (a.oprf_a.data != nullptr) log_normalizer = HeadConstants(a, head).log_normalizer;
  double square = 0, dot = 0;
  ForColumns(a.q, a.q.At(head.batch, head.head, row), a.dim, [&](int i, double q) {
    const double x = q * a.sqrt_scale;
    square += x * x;
    if (a.key_mean.data != nullptr) dot += q * a.key_mean.Load(mean + i * a.key_mean.row);
    queries.x[row * a.dim + i] = static_cast<float>(x);
  });
  square = SumOfWarp(square);
  if (a.key_mean.data != nullptr) dot = SumOfWarp(dot);
  if (threadIdx.x % kLanes > 0) return;
  queries.numbers.shift[row] = a.map.norm_slope * square / 2;
  queries.numbers.log_factor[row] = 2 * log_normalizer + a.scale * dot;
}

__device__ inline bool KeyExists(const Call& a, const Head& head, int row) {
  return a.mask.data == nullptr || a.mask.Load(a.mask.At(head.batch, head.kv_head, row)) != 0;
}

// A row by a warp, as LoadKeys.
template <int kRows>
__device__ void LoadFewKey(const Call& a, const Head& head, int row, FewSide<kRows>& keys) {
  const bool exists = KeyExists(a, head, row);
  const int64_t mean = a.key_mean.At(head.batch, head.head, 0);
  double square = 0;
  ForColumns(a.k, a.k.At(head.batch, head.kv_head, row), a.dim, [&](int i, double k) {
    if (a.key_mean.data != nullptr) k -= a.key_mean.Load(mean + i * a.key_mean.row);
    const double x = exists ? k * a.sqrt_scale : 0;
    square += x * x;
    keys.x[row * a.dim + i] = static_cast<float>(x);
  });
  square = SumOfWarp(square);
  if (threadIdx.x % kLanes > 0) return;
  keys.numbers.shift[row] = a.map.norm_slope * square / 2;
  keys.numbers.exists[row] = exists;
}

// Queries and values are read by the first half of the warps, keys and ℓ by the others.
template <int kRows>
__device__ void LoadFewRows(const Few& few, const Head& head, FewShared<kRows>& shared) {
  constexpr int kHalf = kWarps / 2;
  static_assert(kFewRows <= kHalf);
  const Call& a = few.a;
  const int warp = threadIdx.x / kLanes;
  if (warp < kHalf) {
    if (few.reads() && warp < few.rows) LoadFewQuery(a, head, warp, shared.queries);
    const int row =
        (warp - few.rows + kHalf) % kHalf;  // by warps without a query, if there are any
    if (few.joins() && row < few.rows) {
      const bool exists = KeyExists(a, head, row);
      ForColumns(a.v, a.v.At(head.batch, head.kv_head, row), a.value_dim, [&](int i, double v) {
        shared.value[row * a.value_dim + i] = exists ? static_cast<float>(v) : 0.0f;
      });
    }
  } else if (few.joins() && warp - kHalf < few.rows) {
    LoadFewKey(a, head, warp - kHalf, shared.keys);
  }
  const int row = kBlockThreads - 1 - static_cast<int>(threadIdx.x);
  if (few.joins() && row < few.rows) {
    const bool exists = a.log_decay.data != nullptr && KeyExists(a, head, row);
    shared.log_decay[row] =
        exists ? a.log_decay.Load(a.log_decay.At(head.batch, head.head, row)) : 0.0;
  }
}

// ω of a head, of which eight threads have a row, in packets. Those of a turn are loaded together,
// before those of the turn before are used. kIsLinear: ω·x, scaled, and an offset are the exponent.
template <bool kIsLinear>
class FewOmega {
 public:
  __device__ FewOmega(const Few& few, const Head& head, const Share& share)
      : omega_(few.a.map.omega +
               (few.a.map.entries == 1 ? 0 : head.head) * few.a.map.omega_rows * few.a.dim),
        rows_(few.a.map.is_row_map
                  ? 0
                  : share.count * (few.a.map.omega_rows == few.a.map.features ? 1 : 2)) {
    if constexpr (kIsLinear) {
      const int64_t entry = few.a.map.entries == 1 ? 0 : head.head;
      offsets_ = few.a.map.offset + entry * few.a.map.features;
      scale_ = few.a.map.argument_scale[entry];
    }
    Load(few, share, 0, FirstColumn());
  }

  // ω·x of all rows of a share, whose first turn has been loaded, or their exponents.
  template <int kRows>
  __device__ void Multiply(const Few& few, const Share& share, FewShared<kRows>& shared) {
    const int dim = few.a.dim;
    for (int first = 0; first < rows_; first += kTurnRows) {
      float of_queries[kSteps][kRows] = {}, of_keys[kSteps][kRows] = {}, offset[kSteps];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) offset[s] = kIsLinear ? offset_[s] : 0;
      for (int column = FirstColumn(); column < dim + FirstColumn(); column += kTurnColumns) {
        float4 packets[kSteps][kPackets];
#pragma unroll
        for (int i = 0; i < kSteps * kPackets; ++i)
          packets[i / kPackets][i % kPackets] = ahead_[i / kPackets][i % kPackets];
        const bool ends = column - FirstColumn() + kTurnColumns >= dim;
        Load(few, share, ends ? first + kTurnRows : first,
             ends ? FirstColumn() : column + kTurnColumns);
#pragma unroll
        for (int p = 0; p < kPackets; ++p) {
          const int at = column + p * kPacketColumns;
          if (at >= dim) break;
#pragma unroll
          for (int row = 0; row < kRows; ++row) {
            if (row >= few.rows) break;
            if (few.reads()) {
              const float4 x = Packet(few, shared.queries.x + row * dim + at, dim - at);
#pragma unroll
              for (int s = 0; s < kSteps; ++s) of_queries[s][row] += Dot(packets[s][p], x);
            }
            if (few.joins()) {
              const float4 x = Packet(few, shared.keys.x + row * dim + at, dim - at);
#pragma unroll
              for (int s = 0; s < kSteps; ++s) of_keys[s][row] += Dot(packets[s][p], x);
            }
          }
        }
      }
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int r = first + s * kStepRows + threadIdx.x / kThreads;
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          if (row >= few.rows) break;
#pragma unroll
          for (int distance = kThreads / 2; distance > 0; distance /= 2) {
            of_queries[s][row] += __shfl_xor_sync(~0u, of_queries[s][row], distance);
            of_keys[s][row] += __shfl_xor_sync(~0u, of_keys[s][row], distance);
          }
          if (threadIdx.x % kThreads > 0 || r >= rows_) continue;
          const int at = row * rows_ + r;
          if constexpr (kIsLinear) {
            shared.queries.e[at] = scale_ * of_queries[s][row] + offset[s];
            shared.keys.e[at] = scale_ * of_keys[s][row] + offset[s];
          } else {
            shared.queries.u[at] = of_queries[s][row];
            shared.keys.u[at] = of_keys[s][row];
          }
        }
      }
    }
  }

 private:
  static constexpr int kThreads = 8, kStepRows = kBlockThreads / kThreads;
  static constexpr int kPacketColumns = 4 * kThreads;
  static constexpr int kSteps = 2, kPackets = 2;  // of a turn
  static constexpr int kTurnRows = kSteps * kStepRows, kTurnColumns = kPackets * kPacketColumns;

  __device__ static int FirstColumn() { return threadIdx.x % kThreads * 4; }
  __device__ static float Dot(const float4& a, const float4& b) {
    return a.x * b.x + a.y * b.y + (a.z * b.z + a.w * b.w);
  }
  // Four floats, zeros beyond `count`.
  __device__ static float4 Packet(const Few& few, const float* from, int count) {
    if (few.has_omega_packets) return *reinterpret_cast<const float4*>(from);
    return {from[0], count > 1 ? from[1] : 0, count > 2 ? from[2] : 0, count > 3 ? from[3] : 0};
  }
  // Rows and columns that do not exist are zeros.
  __device__ void Load(const Few& few, const Share& share, int first, int column) {
    const int dim = few.a.dim;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int r = first + s * kStepRows + threadIdx.x / kThreads;
      const int own = r < share.count ? r : r - share.count + share.features;
      if constexpr (kIsLinear) offset_[s] = r < rows_ ? offsets_[share.first + r] : 0;
      const float* line = omega_ + (share.first + own) * dim;
#pragma unroll
      for (int p = 0; p < kPackets; ++p) {
        const int at = column + p * kPacketColumns;
        ahead_[s][p] = r < rows_ && at < dim ? Packet(few, line + at, dim - at) : float4{};
      }
    }
  }

  const float* omega_;
  int rows_;
  float4 ahead_[kSteps][kPackets];
  const float* offsets_ = nullptr;
  float scale_ = 1, offset_[kSteps] = {};
};

// Exponents and factors of the share.
// Halves of the block do both sides at once.
template <int kRows>
__device__ void FindFewFeatures(const Few& few, FewShared<kRows>& shared) {
  constexpr int kHalf = kBlockThreads / 2;
  const auto find = [&](FewSide<kRows>& side, bool of_keys, int first_thread, int threads) {
    FindFeatures(shared.map, shared.constants,
                 {.first = 0,
                  .count = few.rows,
                  .of_keys = of_keys,
                  .x = side.x,
                  .u = side.u,
                  .e = side.e,
                  .g = shared.map.has_factor ? side.g : nullptr,
                  .first_thread = first_thread,
                  .threads = threads});
  };
  if (few.work == FewWork::kCausal && !few.a.map.is_row_map) {
    const bool of_keys = threadIdx.x >= kHalf;
    return find(of_keys ? shared.keys : shared.queries, of_keys, of_keys ? kHalf : 0, kHalf);
  }
  if (few.reads()) find(shared.queries, /*of_keys=*/false, 0, kBlockThreads);
  if (few.joins()) find(shared.keys, /*of_keys=*/true, 0, kBlockThreads);
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_FEW_ROWS_CUH_
