#include "kernels/dropout.h"

#include "core/philox.h"
#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "dropout";
constexpr int kPerBlock = 8;  // elements that a block of random bits decides about

template <class T>
struct Elements {
  const T *x, *residual;
  uint64_t seed, stream;
  uint32_t threshold;  // elements whose 16 bits are below it are dropped
  float keep;          // factor of the others
  int64_t count;
  T* y;
};

template <int kCount, class T>
__device__ void Write(const Elements<T>& a, int64_t at, const float* factors) {
  float values[kCount], sums[kCount] = {};
  LoadFloats(a.x + at, values);
  if (a.residual != nullptr) LoadFloats(a.residual + at, sums);
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] += factors[i] * values[i];
  StoreFloats(sums, a.y + at);
}

// Each thread works on the elements of one block of random bits at a time.
template <bool kDrops, bool kAligned, class T>
__global__ void __launch_bounds__(kElementThreads) DropKernel(const Elements<T> a) {
  for (int64_t first = kPerBlock * ThreadOfGrid(); first < a.count;
       first += kPerBlock * ThreadsOfGrid()) {
    float factors[kPerBlock];
    if constexpr (kDrops) {
      const PhiloxBlock random = Philox(a.seed, a.stream, static_cast<uint64_t>(first / kPerBlock));
#pragma unroll
      for (int i = 0; i < kPerBlock; ++i) {
        const uint32_t word = random.word[i / 2], bits = i % 2 == 0 ? word & 0xffff : word >> 16;
        factors[i] = bits < a.threshold ? 0.0f : a.keep;
      }
    } else {
#pragma unroll
      for (float& factor : factors) factor = 1;
    }
    if (kAligned && first + kPerBlock <= a.count) {
      Write<kPerBlock>(a, first, factors);
    } else {
#pragma unroll
      for (int i = 0; i < kPerBlock; ++i) {
        if (first + i < a.count) Write<1>(a, first + i, factors + i);
      }
    }
  }
}

}  // namespace

void Dropout(const DropoutArguments& a, const Context& context) {
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const auto threshold = static_cast<uint32_t>(a.share * 65536);
    const Elements<T> elements{.x = ElementsOf<T>(a.x),
                               .residual = ElementsOf<T>(a.residual),
                               .seed = a.seed,
                               .stream = a.stream,
                               .threshold = threshold,
                               .keep = static_cast<float>(65536.0 / (65536.0 - threshold)),
                               .count = a.y.shape().Elements(),
                               .y = ElementsOf<T>(a.y)};
    const bool drops = a.share > 0, stays = elements.x == elements.y && a.residual.empty();
    if (elements.count == 0 || (stays && !drops)) return;
    const bool aligned = AreAligned(16, {elements.x, elements.residual, elements.y});
    const auto kernel = drops
                            ? (aligned ? DropKernel<true, true, T> : DropKernel<true, false, T>)
                            : (aligned ? DropKernel<false, true, T> : DropKernel<false, false, T>);
    kernel<<<BlocksForPackets(elements.count, kPerBlock), kElementThreads, 0, StreamOf(context)>>>(
        elements);
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
