// The body of every model: embeddings, positions, blocks, and a last norm.
#ifndef FAVOR_MODELS_TRANSFORMER_H_
#define FAVOR_MODELS_TRANSFORMER_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device_array.h"
#include "favor/data.h"
#include "favor/model.h"
#include "layers/embedding.h"
#include "layers/positions.h"
#include "models/block.h"

namespace favor::models {

// What each layer keeps of the prefixes, of one length, that a decoder has read.
struct Cache {
  int64_t sequences = 1, tokens = 0;
  std::vector<layers::AttentionCache> layers;
  std::vector<layers::FeedForward::Kept> kept;  // of each layer; made from the weights, not stored
  bool whole = true;  // false: a pass failed after some layers had read its tokens

  Cache Fork(int64_t times) const;  // its sequences several times
  int64_t Bytes() const;
  // As layers::AttentionCache says; for all layers.
  bool StaysInPlace() const;
  void Advance(int64_t more);
};

class Transformer {
 public:
  Transformer(layers::ParameterSet& parameters, const ModelConfig& config);

  layers::Embedding& tokens() { return tokens_; }
  // Draws ω of every layer.
  void Redraw(uint64_t seed, uint64_t redraw);

  // The embedding and the first `layers` blocks get no gradients from now on; 0: all do.
  void Freeze(int64_t layers) { frozen_ = layers; }
  bool IsFrozen(const std::string& parameter) const;

  // The shape of a batch, and what passes keep of it.
  struct Shape {
    int64_t batch = 0, length = 0;
    bool training = false;   // gradients will follow
    bool recompute = false;  // only the inputs of blocks are kept, not all activations

    int64_t tokens() const { return batch * length; }
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  struct Activations {
    Shape shape;
    std::vector<View> inputs;  // inputs of blocks, and the output of the last; without training,
                               // two buffers in turn
    std::vector<Block::Activations> blocks;  // one for all if nothing is kept
    Block::Workspace workspace;
    // The last norm: its statistics [tokens, 2], its rows and their gradient, [tokens, width].
    View statistics, hidden, grad;
    // The batch of the last pass, as operations read it.
    struct Input {
      DeviceArray<int32_t> tokens_memory;
      DeviceArray<float> mask_memory;
      std::vector<int32_t> step;  // of SendStep, on the host
      const int32_t* tokens = nullptr;
      layers::FirstRow first{};  // of learned positions, or of waves
      layers::Sequences sequences{};
    };
    Input input;
    // Waves of sinusoidal positions or rotations; kept when the shape changes.
    std::optional<layers::WaveTable> waves;
  };
  // Takes what passes of this shape write from the arena.
  void Reserve(layers::Arena& arena, const Shape& shape, Activations& a) const;
  int64_t TraceBytes(const Shape& shape) const;

  // Returns the rows of the last norm, [tokens, width]. With a cache, the batch follows the
  // prefix of its only sequence and becomes part of it.
  ConstView Forward(const layers::Pass& pass, const Batch& batch, Activations& a,
                    Cache* cache = nullptr) const;
  // One token of each sequence of a cache, behind `position` others, in two parts. Send sends what
  // a pass needs of the host; what Forward queues depends on addresses alone, so that it may be
  // recorded and run again after another Send.
  void SendStep(const Context& context, std::span<const int32_t> tokens, int64_t position,
                Activations& a) const;
  ConstView ForwardStep(const layers::Pass& pass, Activations& a, Cache& cache) const;
  // The rows after the first `layers` blocks; after all of them, the same as Forward.
  ConstView ForwardThrough(int64_t layers, const layers::Pass& pass, const Batch& batch,
                           Activations& a) const;
  Cache MakeCache() const;
  // Starts from the gradient of the rows of the last Forward in a.grad, which is overwritten.
  void Backward(const layers::Pass& pass, Activations& a);

  // Where a number that is not finite appeared first in a training pass; empty if all are finite.
  std::string FirstNotFinite(const Activations& a) const;

 private:
  // Sends a batch whose first tokens have this position.
  void Send(const Context& context, const Batch& batch, int64_t position, Activations& a) const;
  // The row of a position in the table of learned positions or in that of waves.
  int64_t RowOf(const Context& context, int64_t position, int64_t length, Activations& a) const;
  // Both compute with what has been sent: the embedding in a.inputs[0], and everything.
  void ForwardEmbedding(const layers::Pass& pass, Activations& a) const;
  ConstView ForwardSent(const layers::Pass& pass, Activations& a, Cache* cache) const;
  void ForwardBlock(const layers::Pass& pass, size_t layer, Activations& a,
                    Cache* cache = nullptr) const;
  Block::Rows RowsOf(const Activations& a) const;

  ModelConfig config_;
  int64_t frozen_ = 0;  // blocks that get no gradients
  DataType type_;       // type of activations
  Device device_;
  layers::Embedding tokens_;
  std::optional<layers::Embedding> learned_;
  std::vector<Block> blocks_;
  std::optional<layers::LayerNorm> norm_;  // pre-norm only
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_TRANSFORMER_H_
