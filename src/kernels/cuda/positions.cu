#include "kernels/positions.h"

#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "positions";
constexpr char kRotation[] = "rotation";

// Angles are doubles: floats near 10⁶ are 0.06 apart. A thread keeps its frequency and takes
// positions blockDim.y·gridDim.y apart.
template <class T>
__global__ void __launch_bounds__(kElementThreads)
    WavesKernel(int64_t first, int64_t positions, int64_t angles, T* waves) {
  const int64_t angle = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (angle >= angles) return;
  const double frequency =
      pow(10000.0, -2 * static_cast<double>(angle) / static_cast<double>(2 * angles));
  for (int64_t position = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; position < positions;
       position += int64_t{gridDim.y} * blockDim.y) {
    double sine, cosine;
    sincos(static_cast<double>(first + position) * frequency, &sine, &cosine);
    T* to = waves + 2 * (position * angles + angle);
    to[0] = FromFloat<T>(static_cast<float>(cosine));
    to[1] = FromFloat<T>(static_cast<float>(sine));
  }
}

// Waves of rows that take them in turn.
template <class Wave>
struct RowWaves {
  const Wave* waves;  // [positions, half, 2]
  FirstRow first;
  int64_t length, half;

  __device__ const Wave* Of(int64_t row) const {
    return waves + (first.Get() + row % length) * 2 * half;
  }
};

template <int kPacket, class Wave, class T>
__global__ void __launch_bounds__(kElementThreads)
    AddKernel(const RowWaves<Wave> a, int64_t rows, T* x) {
  const int64_t width = 2 * a.half;
  ForEachRow(rows, [&](int64_t row) {
    const Wave* waves = a.Of(row);
    ForEachItem(width / kPacket, [&](int64_t item) {
      const int64_t column = item * kPacket;
      float values[kPacket], added[kPacket];
      LoadFloats(x + row * width + column, values);
      LoadFloats(waves + (kPacket > 1 ? column : column ^ 1), added);
#pragma unroll
      for (int i = 0; i < kPacket; ++i) values[i] += added[kPacket > 1 ? i ^ 1 : i];
      StoreFloats(values, x + row * width + column);
    });
  });
}

// Each item is kPacket neighbouring pairs of a head.
template <int kPacket, class Wave, class T>
__global__ void __launch_bounds__(kElementThreads)
    RotateKernel(const RowWaves<Wave> a, float sign, int64_t rows, int64_t columns, int64_t stride,
                 T* x) {
  const auto items_of_head = static_cast<uint32_t>(a.half / kPacket);
  ForEachRow(rows, [&](int64_t row) {
    const Wave* waves = a.Of(row);
    ForEachItem(columns / (2 * kPacket), [&](int64_t item) {
      const uint32_t head = static_cast<uint32_t>(item) / items_of_head;
      const int64_t pair = (item - int64_t{head} * items_of_head) * kPacket;
      T *low = x + row * stride + head * 2 * a.half + pair, *high = low + a.half;
      float from_low[kPacket], from_high[kPacket], wave[2 * kPacket];
      LoadFloats(low, from_low);
      LoadFloats(high, from_high);
      if constexpr (kPacket > 1) {
        LoadFloats(waves + 2 * pair, wave);
      } else {  // which may begin anywhere
        wave[0] = ToFloat(waves[2 * pair]);
        wave[1] = ToFloat(waves[2 * pair + 1]);
      }
      float to_low[kPacket], to_high[kPacket];
#pragma unroll
      for (int i = 0; i < kPacket; ++i) {
        const float cosine = wave[2 * i], sine = sign * wave[2 * i + 1];
        to_low[i] = cosine * from_low[i] - sine * from_high[i];
        to_high[i] = sine * from_low[i] + cosine * from_high[i];
      }
      StoreFloats(to_low, low);
      StoreFloats(to_high, high);
    });
  });
}

// Calls body(T{}, Wave{}): a table may be f32 if the rows are bf16.
template <class Body>
void WithTypes(const char* operation, const View& x, const ConstView& waves, const Body& body) {
  WithElements(operation, x, [&](auto element) {
    WithElements(operation, waves, [&](auto wave) { body(element, wave); });
  });
}

}  // namespace

void Waves(const WavesArguments& a, const Context& context) {
  WithElements(kName, a.waves, [&](auto element) {
    using T = decltype(element);
    constexpr int64_t kAngles = 32, kPositions = kElementThreads / kAngles, kMostBlocks = 1024;
    const int64_t positions = a.waves.size(0), angles = a.waves.size(1);
    if (positions * angles == 0) return;
    const auto blocks =
        static_cast<unsigned>(std::min((positions + kPositions - 1) / kPositions, kMostBlocks));
    WavesKernel<<<dim3(BlocksFor(angles, kAngles), blocks), dim3(kAngles, kPositions), 0,
                  StreamOf(context)>>>(a.first, positions, angles, ElementsOf<T>(a.waves));
    Check(kName);
  });
}

void AddWaves(const AddWavesArguments& a, const Context& context) {
  WithTypes(kName, a.x, a.waves, [&](auto element, auto wave) {
    using T = decltype(element);
    using Wave = decltype(wave);
    const RowWaves<Wave> waves{.waves = ElementsOf<Wave>(a.waves),
                               .first = a.first,
                               .length = a.length,
                               .half = a.x.size(1) / 2};
    T* x = ElementsOf<T>(a.x);
    const int64_t rows = a.x.size(0), width = a.x.size(1);
    if (rows * width == 0) return;
    const bool aligned = width % kFullPacket<T> == 0 && AreAligned(16, {waves.waves, x});
    WithPackets<T>(aligned, [&](auto packet) {
      const dim3 block = BlockOverRows(width / packet.kValue);
      AddKernel<packet.kValue>
          <<<BlocksFor(rows, block.y), block, 0, StreamOf(context)>>>(waves, rows, x);
    });
    Check(kName);
  });
}

void Rotate(const RotateArguments& a, const Context& context) {
  WithTypes(kRotation, a.x, a.waves, [&](auto element, auto wave) {
    using T = decltype(element);
    using Wave = decltype(wave);
    const RowWaves<Wave> waves{.waves = ElementsOf<Wave>(a.waves),
                               .first = a.first,
                               .length = a.length,
                               .half = a.waves.size(1)};
    T* x = ElementsOf<T>(a.x);
    const int64_t rows = a.x.size(0), columns = a.x.size(1), stride = a.x.stride(0);
    if (rows * columns == 0) return;
    const bool aligned = waves.half % kFullPacket<T> == 0 && stride % kFullPacket<T> == 0 &&
                         AreAligned(16, {waves.waves, x});
    WithPackets<T>(aligned, [&](auto packet) {
      const dim3 block = BlockOverRows(columns / (2 * packet.kValue));
      RotateKernel<packet.kValue><<<BlocksFor(rows, block.y), block, 0, StreamOf(context)>>>(
          waves, a.back ? -1.0f : 1.0f, rows, columns, stride, x);
    });
    Check(kRotation);
  });
}

}  // namespace favor::kernels::cuda
