#include "kernels/dropout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>

#include "core/parallel.h"
#include "core/philox.h"
#include "hwy/highway.h"
#include "kernels/cpu/ranges.h"
#include "kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using WordTag = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<WordTag>;

constexpr int64_t kBlocks = 16;   // blocks of random bits drawn at a time
constexpr int64_t kPerBlock = 8;  // elements that a block decides about

// The lower and the upper half of products.
struct WideProduct {
  Words low, high;
};
HWY_INLINE WideProduct MultiplyWide(Words x, uint32_t factor) {
  const WordTag d;
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t{factor} * hn::GetLane(x);
  return {hn::Set(d, static_cast<uint32_t>(product)),
          hn::Set(d, static_cast<uint32_t>(product >> 32))};
#else
  const hn::Repartition<uint64_t, WordTag> wide;
  const Words odd_first = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x)));
  const auto even = hn::MulEven(x, hn::Set(d, factor)),
             odd = hn::MulEven(odd_first, hn::Set(d, factor));
  return {hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even)),
          hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)))};
#endif
}

// Philox (core/philox.h) for as many blocks as there are lanes, from `index` on, which do not cross
// a multiple of 2³².
HWY_INLINE void DrawWords(uint64_t seed, uint64_t stream, uint64_t index, uint32_t* words) {
  const WordTag d;
  Words c0 = hn::Iota(d, static_cast<uint32_t>(index)),
        c1 = hn::Set(d, static_cast<uint32_t>(index >> 32)),
        c2 = hn::Set(d, static_cast<uint32_t>(stream)),
        c3 = hn::Set(d, static_cast<uint32_t>(stream >> 32));
  PhiloxKey key(seed);
  for (int round = 0; round < kPhiloxRounds; ++round, key.Advance()) {
    const WideProduct even = MultiplyWide(c0, kPhiloxEven), odd = MultiplyWide(c2, kPhiloxOdd);
    c0 = hn::Xor(hn::Xor(odd.high, c1), hn::Set(d, key.k0));
    c1 = odd.low;
    c2 = hn::Xor(hn::Xor(even.high, c3), hn::Set(d, key.k1));
    c3 = even.low;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, words);
}

// y[i] = residual[i] + factor·x[i] for elements [begin, end), where factor is 0 or `keep`; the
// residual may be null.
void DropOnTarget(uint64_t seed, uint64_t stream, uint32_t threshold, float keep, const float* x,
                  const float* residual, int64_t begin, int64_t end, float* y) {
  constexpr int64_t kElements = kBlocks * kPerBlock, kLanes = hn::MaxLanes(WordTag());
  static_assert(kBlocks % kLanes == 0);
  for (int64_t at = begin / kElements * kElements; at < end; at += kElements) {
    uint32_t words[kBlocks * 4];
    for (int64_t i = 0; i < kBlocks; i += kLanes)
      DrawWords(seed, stream, static_cast<uint64_t>(at / kPerBlock + i), words + 4 * i);
    float factors[kBlocks * kPerBlock];
    for (int64_t i = 0; i < kBlocks * 4; ++i) {
      const uint32_t word = words[i];
      factors[2 * i] = vector_math::Select((word & 0xffff) < threshold, 0.0f, keep);
      factors[2 * i + 1] = vector_math::Select((word >> 16) < threshold, 0.0f, keep);
    }
    const int64_t first = std::max(begin, at), last = std::min(end, at + kElements);
    if (residual == nullptr) {
      for (int64_t i = first; i < last; ++i) y[i] = factors[i - at] * x[i];
    } else {
      for (int64_t i = first; i < last; ++i) y[i] = residual[i] + factors[i - at] * x[i];
    }
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(DropOnTarget);

namespace {

constexpr int64_t kTask = 16384;

// Elements whose 16 bits are below it are dropped.
uint32_t Threshold(double share) { return static_cast<uint32_t>(share * 65536); }
double Keep(double share) { return 65536.0 / (65536.0 - Threshold(share)); }

// The reference.
void DropInDouble(const DropoutArguments& a, int64_t begin, int64_t end) {
  const double *x = a.x.Data<double>(),
               *residual = a.residual.empty() ? nullptr : a.residual.Data<double>();
  double* y = a.y.Data<double>();
  for (int64_t i = begin; i < end; ++i) {
    const PhiloxBlock block = Philox(a.seed, a.stream, static_cast<uint64_t>(i / 8));
    const uint32_t word = block.word[i % 8 / 2], bits = i % 2 == 0 ? word & 0xffff : word >> 16;
    const double dropped = bits < Threshold(a.share) ? 0 : Keep(a.share) * x[i];
    y[i] = residual == nullptr ? dropped : residual[i] + dropped;
  }
}

}  // namespace

void DropoutRange(const DropoutArguments& a, int64_t begin, int64_t end) {
  if (a.y.type() == DataType::kF64) return DropInDouble(a, begin, end);
  const float *x = a.x.Data<float>(),
              *residual = a.residual.empty() ? nullptr : a.residual.Data<float>();
  float* y = a.y.Data<float>();
  if (a.share > 0) {
    HWY_DYNAMIC_DISPATCH(DropOnTarget)
    (a.seed, a.stream, Threshold(a.share), static_cast<float>(Keep(a.share)), x, residual, begin,
     end, y);
  } else if (residual == nullptr) {
    if (y != x) std::copy(x + begin, x + end, y + begin);
  } else {
    for (int64_t i = begin; i < end; ++i) y[i] = residual[i] + x[i];
  }
}

void Dropout(const DropoutArguments& a, const Context& context) {
  ParallelForBlocks(context, a.y.shape().Elements(), kTask,
                    [&](int64_t begin, int64_t end) { DropoutRange(a, begin, end); });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
