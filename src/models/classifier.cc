#include "models/classifier.h"

#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/mean_pool.h"

namespace favor::models {
Classifier::Classifier(const ModelConfig& config, const NetworkOptions& options)
    : Network(config, options), output_(parameters_, "classifier", config.width, config.classes) {}

PassBuffers::Output Classifier::ReserveOutput(layers::Arena& arena,
                                              const Transformer::Shape& shape) const {
  PassBuffers::Output head;
  head.rows = arena.Take({shape.batch, config_.width});
  head.grad_rows = arena.Take({shape.batch, config_.width});
  head.logits = arena.Take({shape.batch, config_.classes});
  return head;
}

void Classifier::PooledLogits(const Batch& batch, const layers::Pass& pass,
                              PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  const PassBuffers::Output& head = buffers.output;
  kernels::MeanPool({.x = hidden, .sequences = buffers.activations.input.sequences, .y = head.rows},
                    pass.context);
  output_.Forward(pass.context, head.rows, head.logits);
}

void Classifier::Loss(const Batch& batch, const layers::Pass& pass, double grad_scale,
                      PassBuffers& buffers) const {
  PooledLogits(batch, pass, buffers);
  kernels::CrossEntropy({.targets = buffers.targets_memory.Send(batch.targets, pass.context),
                         .grad_scale = grad_scale,
                         .logits = buffers.output.logits,
                         .tally = pass.tally->At()},
                        pass.context);
}

void Classifier::Forward(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const {
  Loss(batch, pass, /*grad_scale=*/0, buffers);
}

void Classifier::ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                                 PassBuffers& buffers) {
  Loss(batch, pass, grad_scale, buffers);
  const PassBuffers::Output& head = buffers.output;
  output_.Backward(pass.context, head.rows, head.logits, head.grad_rows);
  kernels::MeanPoolBackward({.grad_y = head.grad_rows,
                             .sequences = buffers.activations.input.sequences,
                             .grad_x = buffers.activations.grad},
                            pass.context);
  body_.Backward(pass, buffers.activations);
}

Tensor Classifier::ForwardLogits(const Batch& batch, const layers::Pass& pass,
                                 PassBuffers& buffers) const {
  PooledLogits(batch, pass, buffers);
  const ConstView& from = buffers.output.logits;
  Tensor logits(from.shape(), from.type(), from.device());
  kernels::Copy({.from = from, .to = logits}, pass.context);
  return logits;
}

}  // namespace favor::models
