#include "kernels/dropout.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/philox.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kElements = 8;  // elements per block of random bits
constexpr int64_t kTask = 16384;

// Calls out(i, factor) for every element.
template <class T, class Out>
void ForEachFactor(const DropoutArguments& a, const Context& context, const Out& out) {
  const int64_t count = a.y.shape().Elements();
  if (a.share <= 0) {
    ParallelForBlocks(context, count, kTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out(i, T{1});
    });
    return;
  }
  const auto threshold = static_cast<uint32_t>(a.share * 65536);
  const T keep = static_cast<T>(65536.0 / (65536.0 - threshold));
  ParallelForBlocks(context, count, kTask, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kElements) {
      const PhiloxBlock bits = Philox(a.seed, a.stream, static_cast<uint64_t>(first / kElements));
      T factors[kElements];
      for (size_t i = 0; i < 4; ++i) {
        factors[2 * i] = (bits.word[i] & 0xffff) < threshold ? T{0} : keep;
        factors[2 * i + 1] = (bits.word[i] >> 16) < threshold ? T{0} : keep;
      }
      const int64_t last = std::min(end, first + kElements);
      for (int64_t i = first; i < last; ++i) out(i, factors[i - first]);
    }
  });
}

}  // namespace

void Dropout(const DropoutArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    const T* x = a.x.Data<T>();
    T* y = a.y.Data<T>();
    if (a.residual.empty()) {
      ForEachFactor<T>(a, context, [=](int64_t i, T factor) { y[i] = factor * x[i]; });
    } else {
      const T* residual = a.residual.Data<T>();
      ForEachFactor<T>(a, context,
                       [=](int64_t i, T factor) { y[i] = residual[i] + factor * x[i]; });
    }
  });
}

}  // namespace favor::kernels::cpu
