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
  const Scratch<float> memory(context, (d + dv + 1 + kKeyBlock) * kLanes + kKeyBlock * (d + dv));
  float *q = memory.data(), *block_sums = q + d * kLanes, *scores = block_sums + (dv + 1) * kLanes;
  float *keys = scores + kKeyBlock * kLanes, *values = keys + kKeyBlock * d;
  // A block's sums in float, those of all blocks in double: the values' columns, then the
  // denominator.
  const Scratch<double> sums(context, (dv + 1) * kLanes);
  const float one = 1;
  RowCounts counts;
  for (int64_t first = begin; first < end; first += kLanes) {
    const int64_t lanes = std::min(kLanes, end - first);
    LoadTile(rows.queries, first, lanes, nullptr, rows.scale, q);
    std::fill_n(sums.data(), (dv + 1) * kLanes, 0.0);
    Lanes maximum = Fill(-INFINITY);
    const int64_t visible = rows.causal ? first + lanes : length;
    for (int64_t block = 0; block < visible; block += kKeyBlock) {
      const int64_t count = std::min(kKeyBlock, visible - block);
      LoadRows(rows.keys, block, count, rows.mask, keys);
      LoadRows(rows.values, block, count, rows.mask, values);
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
      for (int64_t j = 0; j < count; ++j)
        StoreLanes(Exp(LoadLanes(scores + j * kLanes) - safe), scores + j * kLanes);
      Multiply({values, 1, dv}, dv, count, scores, /*add=*/false, block_sums);
      Multiply({&one, 0, 0}, 1, count, scores, /*add=*/false, block_sums + dv * kLanes);
      for (int64_t c = 0; c <= dv; ++c) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          double& sum = sums[c * kLanes + lane];
          sum = static_cast<double>(decay[lane]) * sum + block_sums[c * kLanes + lane];
        }
      }
      maximum = larger;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      counts += StoreRow(
          out, first + lane, dv, maximum[lane] > -INFINITY, maximum[lane],
          [&](int64_t v) { return sums[v * kLanes + lane]; }, sums[dv * kLanes + lane]);
    }
  }
  return counts;
}

}  // namespace favor::kernels::cpu
