#include "kernels/cpu/blocks.h"

namespace favor::kernels::cpu {
namespace {

void CopyState(const PrefixState& from, const PrefixState& to) {
  *to.tokens = *from.tokens;
  *to.log_decay = *from.log_decay;
  std::ranges::copy(from.c, to.c.begin());
  std::ranges::copy(from.z, to.z.begin());
  std::copy_n(from.s, from.width * from.value_dim, to.s);
}

}  // namespace

void ScanStates(const PrefixStates& states, Side side) {
  const StateTensors memory(2, states.At(0).width, states.At(0).value_dim);
  const PrefixState running = memory.views().At(0), block = memory.views().At(1);
  for (int64_t i = 0; i < states.groups(); ++i) {
    const PrefixState state = states.At(side == Side::kBefore ? i : states.groups() - 1 - i);
    CopyState(state, block);
    CopyState(running, state);
    MergeInto(block, running);
  }
}

}  // namespace favor::kernels::cpu
