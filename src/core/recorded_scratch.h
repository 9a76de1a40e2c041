// Scratch memory of work on a GPU that is recorded: it stays where it is for as long as the record.
#ifndef FAVOR_CORE_RECORDED_SCRATCH_H_
#define FAVOR_CORE_RECORDED_SCRATCH_H_

#include <cstdint>
#include <vector>

#include "favor/tensor.h"

namespace favor {

// Memory that operations give back is taken by those behind them, which run later.
class RecordedScratch {
 public:
  explicit RecordedScratch(const Device& device) : device_(device) {}

  void* Take(int64_t bytes);
  bool GiveBack(void* memory) noexcept;  // false: it is not from here

 private:
  struct Block {
    internal::Memory memory;
    int64_t bytes;
    bool is_free;
  };
  Device device_;
  std::vector<Block> blocks_;
};

}  // namespace favor

#endif  // FAVOR_CORE_RECORDED_SCRATCH_H_
