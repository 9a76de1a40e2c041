#include "layers/positions.h"

#include <algorithm>

#include "kernels/positions.h"

namespace favor::layers {

int64_t WaveTable::Cover(const Context& context, int64_t first, int64_t length) {
  constexpr int64_t kTogether = 64;  // tokens after a prefix
  const int64_t have = table_.empty() ? 0 : table_.shape()[0];
  const int64_t row = first - table_first_;
  if (row >= 0 && row + length <= have) return row;
  table_first_ = first;
  const int64_t wanted = first == 0 ? length : std::max(length, kTogether);
  if (wanted > have) table_ = Tensor({wanted, width_ / 2, 2}, type_, device_);
  kernels::Waves({.first = first, .waves = table_}, context);
  return 0;
}

void WaveTable::AddTo(const Context& context, FirstRow first, int64_t length, View x) const {
  kernels::AddWaves({.waves = table_, .first = first, .length = length, .x = x}, context);
}

void WaveTable::Rotate(const Context& context, FirstRow first, int64_t length, bool back,
                       View x) const {
  kernels::Rotate({.waves = table_, .first = first, .length = length, .back = back, .x = x},
                  context);
}

}  // namespace favor::layers
