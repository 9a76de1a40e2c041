#include "core/recorded_scratch.h"

#include "core/device.h"

namespace favor {

void* RecordedScratch::Take(int64_t bytes) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    const bool fits = block.is_free && block.bytes >= bytes;
    if (fits && (best == nullptr || block.bytes < best->bytes)) best = &block;
  }
  if (best == nullptr)
    best = &blocks_.emplace_back(Block{AllocateOn(device_, bytes), bytes, /*is_free=*/true});
  best->is_free = false;
  return best->memory.get();
}

bool RecordedScratch::GiveBack(void* memory) noexcept {
  for (Block& block : blocks_) {
    if (block.memory.get() != memory) continue;
    block.is_free = true;
    return true;
  }
  return false;
}

}  // namespace favor
