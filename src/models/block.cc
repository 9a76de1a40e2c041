#include "models/block.h"

#include <cmath>

#include "layers/dropout.h"
#include "models/feed_forward.h"
#include "models/first_values.h"
#include "models/heads.h"

namespace favor::models {
namespace {

std::string Name(int64_t layer, const char* part) {
  return "layers." + std::to_string(layer) + "." + part;
}

// Branches add up over 2·layers residual connections: each starts with 1/(2·layers) of the
// variance.
double BranchGain(const ModelConfig& config) {
  return 1 / std::sqrt(2.0 * static_cast<double>(config.layers));
}

}  // namespace

Block::Block(layers::ParameterSet& parameters, const ModelConfig& config, int64_t layer)
    : pre_norm_(config.norm == Norm::kPre),
      layer_(layer),
      width_(config.width),
      attention_norm_(parameters, Name(layer, "attention_norm"), config.width,
                      {.epsilon = config.norm_epsilon}),
      attention_(parameters, Name(layer, "attention"), AttentionShapeOf(config, layer),
                 BranchGain(config)),
      feed_forward_norm_(
          parameters, Name(layer, "feed_forward_norm"), config.width,
          {.epsilon = config.norm_epsilon,
           .gain =
               config.norm == Norm::kPost && layer + 1 == config.layers ? LastGain(config) : 1}),
      feed_forward_(parameters, Name(layer, "feed_forward"),
                    FeedForwardShapeOf(config, BranchGain(config))) {}

void Block::Redraw(uint64_t seed, uint64_t redraw) {
  attention_.Redraw(seed, redraw);
  feed_forward_.Draw(seed);
}

Block::Activations Block::Reserve(layers::Arena& arena, int64_t tokens) const {
  const auto residual = [&] {
    Residual r{.statistics = arena.TakeExact({tokens, 2}), .sum = {}};
    if (!pre_norm_) r.sum = arena.Take({tokens, width_});
    return r;
  };
  return {.attention_residual = residual(),
          .feed_forward_residual = residual(),
          .attention = attention_.Reserve(arena, tokens),
          .middle = arena.Take({tokens, width_}),
          .feed_forward = feed_forward_.Reserve(arena, tokens)};
}

Block::Workspace Block::ReserveWorkspace(layers::Arena& arena, int64_t tokens,
                                         bool training) const {
  Workspace w;
  w.normed = arena.Take({tokens, width_});
  if (training) {
    w.grad_branch = arena.Take({tokens, width_});
    w.grad_normed = arena.Take({tokens, width_});
    if (!pre_norm_) w.grad_sum = arena.Take({tokens, width_});
  }
  // The two sublayers never run at the same time.
  const int64_t mark = arena.Mark();
  w.attention = attention_.ReserveWorkspace(arena, tokens, training);
  const int64_t end = arena.Mark();
  arena.Rewind(mark);
  w.feed_forward = feed_forward_.ReserveWorkspace(arena, tokens, training);
  if (arena.Mark() < end) arena.Rewind(end);
  return w;
}

template <class Sublayer>
void Block::ResidualForward(const layers::Pass& pass, uint64_t place, const layers::LayerNorm& norm,
                            ConstView x, const Residual& r, const Workspace& w,
                            const Sublayer& sublayer, View y) const {
  if (pre_norm_) {
    norm.Forward(pass.context, x, r.statistics, w.normed);
    sublayer(w.normed, layers::DroppedOnto(pass, place, x, y, y), y);
  } else {
    sublayer(x, layers::DroppedOnto(pass, place, x, r.sum, r.sum), r.sum);
    norm.Forward(pass.context, r.sum, r.statistics, y);
  }
}

template <class SublayerBackward>
void Block::ResidualBackward(const layers::Pass& pass, uint64_t place, layers::LayerNorm& norm,
                             ConstView x, const Residual& r, const Workspace& w,
                             const SublayerBackward& backward, View grad) {
  if (pre_norm_) {
    norm.Again(pass.context, x, r.statistics, w.normed);
    backward(w.normed, layers::Dropped(pass, place, grad, w.grad_branch), w.grad_normed);
    norm.Backward(pass.context, x, r.statistics, w.grad_normed, grad, /*add=*/true);
  } else {
    norm.Backward(pass.context, r.sum, r.statistics, grad, w.grad_sum, /*add=*/false);
    backward(x, layers::Dropped(pass, place, w.grad_sum, w.grad_branch), w.grad_normed);
    const layers::Pass exact{.context = pass.context, .tally = pass.tally};
    kernels::Dropout(layers::DroppedOnto(exact, place, w.grad_sum, w.grad_normed, grad),
                     pass.context);
  }
}

void Block::Forward(const layers::Pass& pass, const Rows& rows, ConstView x, Activations& a,
                    const Workspace& w, bool training, View y) const {
  const auto place = static_cast<uint64_t>(2 * layer_);
  ResidualForward(
      pass, place, attention_norm_, x, a.attention_residual, w,
      [&](ConstView in, const kernels::MatmulEpilogue& then, View out) {
        attention_.Forward(pass.context, rows.attention, in, a.attention, training, Entry(pass),
                           then, out);
      },
      a.middle);
  ResidualForward(
      pass, place + 1, feed_forward_norm_, a.middle, a.feed_forward_residual, w,
      [&](ConstView in, const kernels::MatmulEpilogue& then, View out) {
        feed_forward_.Forward(pass.context, in, a.feed_forward, w.feed_forward, then, rows.kept,
                              out);
      },
      y);
}

void Block::Backward(const layers::Pass& pass, const Rows& rows, ConstView x, const Activations& a,
                     const Workspace& w, View grad) {
  const auto place = static_cast<uint64_t>(2 * layer_);
  ResidualBackward(
      pass, place + 1, feed_forward_norm_, a.middle, a.feed_forward_residual, w,
      [&](ConstView in, ConstView grad_out, View grad_in) {
        feed_forward_.Backward(pass.context, in, a.feed_forward, w.feed_forward, grad_out, grad_in);
      },
      grad);
  ResidualBackward(
      pass, place, attention_norm_, x, a.attention_residual, w,
      [&](ConstView in, ConstView grad_out, View grad_in) {
        attention_.Backward(pass.context, rows.attention, in, a.attention, w.attention, grad_out,
                            Entry(pass), grad_in);
      },
      grad);
}

}  // namespace favor::models
