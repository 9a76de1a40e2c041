// One layer of a Transformer: attention and a feed-forward layer, each with a residual connection,
// a norm and dropout.
#ifndef FAVOR_MODELS_BLOCK_H_
#define FAVOR_MODELS_BLOCK_H_

#include <string>

#include "favor/model.h"
#include "layers/feed_forward.h"
#include "layers/layer_norm.h"
#include "layers/multi_head_attention.h"
#include "layers/pass.h"

namespace favor::models {

class Block {
 public:
  Block(layers::ParameterSet& parameters, const ModelConfig& config, int64_t layer);

  // Draws ω of attention, a pure function of (seed, redraw), and the sketches of linearised layers,
  // which the seed alone decides: weights are learned for them.
  void Redraw(uint64_t seed, uint64_t redraw);
  layers::AttentionCache MakeCache(DataType type, const Device& device) const {
    return attention_.MakeCache(type, device);
  }

  // Kept for gradients.
  struct Residual {
    View statistics;  // statistics of the norm, [tokens, 2]
    View sum;         // post-norm only: the input of the norm
  };
  struct Activations {
    Residual attention_residual, feed_forward_residual;
    layers::MultiHeadAttention::Activations attention;
    View middle;  // rows after attention, [tokens, width]
    layers::FeedForward::Activations feed_forward;
  };
  Activations Reserve(layers::Arena& arena, int64_t tokens) const;

  // Buffers that every call overwrites; one set for all layers.
  struct Workspace {
    View normed, grad_branch, grad_normed, grad_sum;  // [tokens, width]
    layers::MultiHeadAttention::Workspace attention;
    layers::FeedForward::Workspace feed_forward;
  };
  Workspace ReserveWorkspace(layers::Arena& arena, int64_t tokens, bool training) const;
  int64_t TraceBytes(int64_t batch, int64_t length, DataType type, const Device& device) const {
    return attention_.TraceBytes(batch, length, type, device);
  }

  // How the rows of x are read.
  struct Rows {
    layers::MultiHeadAttention::Rows attention;
    layers::FeedForward::Kept* kept = nullptr;  // what a decoder keeps of the weights
  };

  void Forward(const layers::Pass& pass, const Rows& rows, ConstView x, Activations& a,
               const Workspace& w, bool training, View y) const;
  // `grad` holds the gradient of y and receives the gradient of x.
  void Backward(const layers::Pass& pass, const Rows& rows, ConstView x, const Activations& a,
                const Workspace& w, View grad);

 private:
  // Where attention of this layer counts its rows.
  TallyEntry* Entry(const layers::Pass& pass) const { return pass.tally->At(1 + layer_); }

  template <class Sublayer>
  void ResidualForward(const layers::Pass& pass, uint64_t place, const layers::LayerNorm& norm,
                       ConstView x, const Residual& r, const Workspace& w, const Sublayer& sublayer,
                       View y) const;
  template <class SublayerBackward>
  void ResidualBackward(const layers::Pass& pass, uint64_t place, layers::LayerNorm& norm,
                        ConstView x, const Residual& r, const Workspace& w,
                        const SublayerBackward& backward, View grad);

  bool pre_norm_;
  int64_t layer_, width_;
  layers::LayerNorm attention_norm_;
  layers::MultiHeadAttention attention_;
  layers::LayerNorm feed_forward_norm_;
  layers::FeedForward feed_forward_;
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_BLOCK_H_
