// What passes through a network write, apart from the weights that they read.
#ifndef FAVOR_MODELS_PASS_BUFFERS_H_
#define FAVOR_MODELS_PASS_BUFFERS_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/device_array.h"
#include "layers/arena.h"
#include "models/transformer.h"

namespace favor::models {

// Made by Network::MakeBuffers and of use to that network alone; one pass at a time. They keep
// their memory and serve passes of any shape.
struct PassBuffers {
  PassBuffers(DataType type, Device device, bool recomputes)
      : recompute(recomputes), arena(type, device) {}

  bool recompute;  // training passes keep only the inputs of blocks of all activations
  layers::Arena arena;
  Transformer::Activations activations;
  struct Output {
    View rows, grad_rows;  // what logits are made from, [rows, width]
    View logits;           // [rows, vocab or classes]
  };
  Output output;
  DeviceArray<int32_t> targets_memory;
  DeviceArray<int64_t> places_memory;  // of rows that have a target
};

// Buffers between two passes: as many as there were passes at the same time.
class BufferPool {
 public:
  // run(buffers) with buffers that nobody else has; `make` makes some where all are in use. Those
  // of a run that throws are gone.
  template <class Make, class Run>
  auto With(const Make& make, const Run& run) {
    std::unique_ptr<PassBuffers> buffers = Take();
    if (buffers == nullptr) buffers = std::make_unique<PassBuffers>(make());
    auto result = run(*buffers);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffers));
    return result;
  }

 private:
  std::unique_ptr<PassBuffers> Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    std::unique_ptr<PassBuffers> buffers = std::move(free_.back());
    free_.pop_back();
    return buffers;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<PassBuffers>> free_;
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_PASS_BUFFERS_H_
