#include "models/classifier.h"

#include <cmath>

#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/mean_pool.h"

namespace favor::models {
Classifier::Classifier(const ModelConfig& config, const NetworkOptions& options)
    : Network(config, options), output_(parameters_, "classifier", config.width, config.classes) {}

PassBuffers::Head Classifier::PlanHead(layers::Arena& arena,
                                       const Transformer::Shape& shape) const {
  PassBuffers::Head head;
  head.rows = arena.Take({shape.batch, config_.width});
  head.grad_rows = arena.Take({shape.batch, config_.width});
  head.logits = arena.Take({shape.batch, config_.classes});
  return head;
}

void Classifier::PooledLogits(const Batch& batch, const layers::Pass& pass,
                              PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  const PassBuffers::Head& head = buffers.head;
  kernels::MeanPool({.x = hidden, .sequences = buffers.activations.input.sequences, .y = head.rows},
                    pass.context);
  output_.Forward(pass.context, head.rows, head.logits);
}

Score Classifier::Loss(const Batch& batch, const layers::Pass& pass, double grad_scale,
                       PassBuffers& buffers) const {
  PooledLogits(batch, pass, buffers);
  TallyEntry tally;
  kernels::CrossEntropy({.targets = buffers.targets_memory.Send(batch.targets, pass.context),
                         .grad_scale = grad_scale,
                         .logits = buffers.head.logits,
                         .tally = &tally},
                        pass.context);
  return {.loss = tally.loss, .correct = tally.correct, .count = tally.targets};
}

Score Classifier::Forward(const Batch& batch, const layers::Pass& pass,
                          PassBuffers& buffers) const {
  return Loss(batch, pass, /*grad_scale=*/0, buffers);
}

Score Classifier::ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                                  PassBuffers& buffers) {
  const Score score = Loss(batch, pass, grad_scale, buffers);
  if (!std::isfinite(score.loss)) return score;
  const PassBuffers::Head& head = buffers.head;
  output_.Backward(pass.context, head.rows, head.logits, head.grad_rows);
  kernels::MeanPoolBackward({.grad_y = head.grad_rows,
                             .sequences = buffers.activations.input.sequences,
                             .grad_x = buffers.activations.grad},
                            pass.context);
  body_.Backward(pass, buffers.activations);
  return score;
}

Tensor Classifier::ForwardLogits(const Batch& batch, const layers::Pass& pass,
                                 PassBuffers& buffers) const {
  PooledLogits(batch, pass, buffers);
  Tensor logits({batch.batch, config_.classes}, buffers.head.logits.type());
  kernels::Copy({.from = buffers.head.logits, .to = logits}, pass.context);
  return logits;
}

}  // namespace favor::models
