#include "core/largest_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/largest_bits.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <bit>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace favor::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

int32_t LargestBitsOnTarget(const float* values, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bits = [&](int64_t i) { return hn::BitCast(di, hn::Abs(hn::LoadU(d, values + i))); };
  // Four maxima: a single one would wait for itself.
  auto a = hn::Zero(di), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Max(a, bits(i));
    b = hn::Max(b, bits(i + lanes));
    c = hn::Max(c, bits(i + 2 * lanes));
    e = hn::Max(e, bits(i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Max(a, bits(i));
  int32_t largest = hn::GetLane(hn::MaxOfLanes(di, hn::Max(hn::Max(a, b), hn::Max(c, e))));
  for (; i < count; ++i)
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  return largest;
}

}  // namespace favor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor {

HWY_EXPORT(LargestBitsOnTarget);

int32_t LargestBits(const float* values, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(LargestBitsOnTarget)(values, count);
}

}  // namespace favor
#endif  // HWY_ONCE
