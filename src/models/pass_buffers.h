// The memory that passes through a network write to; weights are only read.
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

// Made by Network::MakeBuffers, for that network only; one pass at a time. They keep their memory
// and serve passes of any shape.
struct PassBuffers {
  PassBuffers(DataType type, Device device, bool recomputes)
      : recompute(recomputes), arena(type, device) {}

  bool recompute;  // training passes keep only the inputs of blocks, not all activations
  layers::Arena arena;
  Transformer::Activations activations;
  struct Output {
    View rows, grad_rows;  // input of the output layer, [rows, width]
    View logits;           // [rows, vocab or classes]
  };
  Output output;
  DeviceArray<int32_t> targets_memory;
  DeviceArray<float> values_memory, weights_memory;  // numbers to predict, weights of classes
  DeviceArray<int64_t> places_memory;                // places of rows that have a target
};

// Buffers that wait for the next pass: as many as there were passes at the same time.
class BufferPool {
 public:
  // Calls run(buffers) with buffers that no other pass is using; `make` makes new ones if all are
  // in use. Buffers of a run that throws are dropped.
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
