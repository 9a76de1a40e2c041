#include "layers/dropout.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::layers {
namespace {

// 16 bits decide about an element: eight elements a block of random bits.
constexpr int64_t kElements = 8, kTask = 16384;

// out(i, factor) for every element.
template <class T, class Out>
void ForEachFactor(const Pass& pass, uint64_t place, int64_t count, const Out& out) {
  if (pass.dropout <= 0) {
    ParallelForBlocks(pass.context, count, kTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out(i, T{1});
    });
    return;
  }
  const auto threshold = static_cast<uint32_t>(pass.dropout * 65536);
  const T keep = static_cast<T>(65536.0 / (65536.0 - threshold));
  const RandomStream stream = pass.stream.Child(place);
  ParallelForBlocks(pass.context, count, kTask, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kElements) {
      const auto bits = stream.Block(static_cast<uint64_t>(first / kElements));
      T factors[kElements];
      for (size_t i = 0; i < 4; ++i) {
        factors[2 * i] = (bits[i] & 0xffff) < threshold ? T{0} : keep;
        factors[2 * i + 1] = (bits[i] >> 16) < threshold ? T{0} : keep;
      }
      const int64_t last = std::min(end, first + kElements);
      for (int64_t i = first; i < last; ++i) out(i, factors[i - first]);
    }
  });
}

}  // namespace

void Drop(const Pass& pass, uint64_t place, ConstView x, View y) {
  kernels::cpu::WithType(y.type(), [&]<class T>(T) {
    const T* in = x.Data<T>();
    T* to = y.Data<T>();
    ForEachFactor<T>(pass, place, y.shape().Elements(),
                     [=](int64_t i, T factor) { to[i] = factor * in[i]; });
  });
}

void AddDropped(const Pass& pass, uint64_t place, ConstView x, ConstView branch, View y) {
  kernels::cpu::WithType(y.type(), [&]<class T>(T) {
    const T *in = x.Data<T>(), *from = branch.Data<T>();
    T* to = y.Data<T>();
    ForEachFactor<T>(pass, place, y.shape().Elements(),
                     [=](int64_t i, T factor) { to[i] = in[i] + factor * from[i]; });
  });
}

}  // namespace favor::layers
