#include "kernels/exact_attention.h"

#include <algorithm>
#include <cmath>

#include "core/context_impl.h"
#include "kernels/cpu/tile.h"
#include "kernels/output_row.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kKeyBlock = 64;

}  // namespace

RowCounts Exact(const ExactRows& rows, int64_t begin, int64_t end, const Context& context,
                const OutputRows& out) {
  const int64_t length = rows.keys.size(0), d = rows.keys.size(1), dv = rows.values.size(1);
  const Scratch<float> memory(context, (d + dv + kKeyBlock) * kLanes + kKeyBlock * (d + dv));
  float *q = memory.data(), *sums = q + d * kLanes, *scores = sums + dv * kLanes;
  float *keys = scores + kKeyBlock * kLanes, *values = keys + kKeyBlock * d;
  const float one = 1;
  RowCounts counts;
  for (int64_t first = begin; first < end; first += kLanes) {
    const int64_t lanes = std::min(kLanes, end - first);
    LoadTile(rows.queries, first, lanes, nullptr, rows.scale, q);
    std::fill_n(sums, dv * kLanes, 0.0f);
    Lanes maximum = Fill(-INFINITY);
    float denominator[kLanes] = {};
    const int64_t visible = rows.causal ? first + lanes : length;
    for (int64_t block = 0; block < visible; block += kKeyBlock) {
      const int64_t count = std::min(kKeyBlock, visible - block);
      LoadRows(rows.keys, block, count, keys);
      LoadRows(rows.values, block, count, values);
      Multiply({keys, d, 1}, count, d, q, /*add=*/false, scores);
      for (int64_t j = 0; j < count; ++j) {
        if (rows.mask != nullptr && rows.mask[block + j] == 0) {
          std::fill_n(scores + j * kLanes, kLanes, -INFINITY);
        } else if (rows.causal && block + j > first) {  // queries before the key do not see it
          std::fill_n(scores + j * kLanes, block + j - first, -INFINITY);
        }
      }
      const Lanes larger = MaxOverRows(scores, count, maximum);
      // Lanes without a key so far: −∞ − (−∞) would be NaN; any finite number gives exp(−∞) = 0.
      const Lanes safe = larger == -INFINITY ? Lanes{} : larger;
      const Lanes decay = Exp(maximum - safe);
      for (int64_t c = 0; c < dv; ++c)
        StoreLanes(LoadLanes(sums + c * kLanes) * decay, sums + c * kLanes);
      StoreLanes(LoadLanes(denominator) * decay, denominator);
      for (int64_t j = 0; j < count; ++j) {
        StoreLanes(Exp(LoadLanes(scores + j * kLanes) - safe), scores + j * kLanes);
      }
      Multiply({values, 1, dv}, dv, count, scores, /*add=*/true, sums);
      Multiply({&one, 0, 0}, 1, count, scores, /*add=*/true, denominator);
      maximum = larger;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      counts += StoreRow(
          out, first + lane, dv, maximum[lane] > -INFINITY, maximum[lane],
          [&](int64_t v) { return sums[v * kLanes + lane]; }, denominator[lane]);
    }
  }
  return counts;
}

}  // namespace favor::kernels::cpu
