#include "models/classifier.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"
#include "layers/cross_entropy.h"

namespace favor::models {
namespace {

// weight(sequence, position): 1/(number of tokens that exist), 0 for padding.
std::vector<double> PoolingWeights(const Batch& batch) {
  std::vector<double> weights(batch.tokens.size(), 1.0 / static_cast<double>(batch.length));
  if (batch.mask.empty()) return weights;
  for (int64_t sequence = 0; sequence < batch.batch; ++sequence) {
    const auto first = static_cast<size_t>(sequence * batch.length);
    double exist = 0;
    for (size_t i = 0; i < static_cast<size_t>(batch.length); ++i) exist += batch.mask[first + i];
    for (size_t i = 0; i < static_cast<size_t>(batch.length); ++i)
      weights[first + i] = exist > 0 ? batch.mask[first + i] / exist : 0;
  }
  return weights;
}

}  // namespace

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
  const std::vector<double> weights = PoolingWeights(batch);
  kernels::cpu::WithType(hidden.type(), [&]<class T>(T) {
    const int64_t width = config_.width;
    ParallelFor(pass.context, batch.batch, [&](int64_t sequence) {
      std::vector<double> sum(static_cast<size_t>(width), 0.0);
      for (int64_t i = sequence * batch.length; i < (sequence + 1) * batch.length; ++i) {
        const T* row = hidden.Data<T>() + i * width;
        const double weight = weights[static_cast<size_t>(i)];
        if (weight == 0) continue;
        for (int64_t j = 0; j < width; ++j)
          sum[static_cast<size_t>(j)] += weight * static_cast<double>(row[j]);
      }
      std::ranges::transform(sum, head.rows.Data<T>() + sequence * width,
                             [](double value) { return static_cast<T>(value); });
    });
  });
  output_.Forward(pass.context, head.rows, head.logits);
}

Score Classifier::Forward(const Batch& batch, const layers::Pass& pass,
                          PassBuffers& buffers) const {
  PooledLogits(batch, pass, buffers);
  return layers::CrossEntropy(pass.context, buffers.head.logits, batch.targets, /*grad_scale=*/0);
}

Score Classifier::ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                                  PassBuffers& buffers) {
  PooledLogits(batch, pass, buffers);
  const PassBuffers::Head& head = buffers.head;
  const Score score = layers::CrossEntropy(pass.context, head.logits, batch.targets, grad_scale);
  if (!std::isfinite(score.loss)) return score;
  output_.Backward(pass.context, head.rows, head.logits, head.grad_rows);
  const std::vector<double> weights = PoolingWeights(batch);
  kernels::cpu::WithType(head.logits.type(), [&]<class T>(T) {
    const int64_t width = config_.width;
    ParallelForBlocks(pass.context, batch.batch * batch.length, kernels::cpu::RowsOfTask(width),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          const T weight = static_cast<T>(weights[static_cast<size_t>(i)]);
                          const T* from = head.grad_rows.Data<T>() + i / batch.length * width;
                          T* to = buffers.activations.grad.Data<T>() + i * width;
                          for (int64_t j = 0; j < width; ++j) to[j] = weight * from[j];
                        }
                      });
  });
  body_.Backward(pass, batch, buffers.activations);
  return score;
}

Tensor Classifier::ForwardLogits(const Batch& batch, const layers::Pass& pass,
                                 PassBuffers& buffers) const {
  PooledLogits(batch, pass, buffers);
  Tensor logits({batch.batch, config_.classes}, buffers.head.logits.type());
  Copy(buffers.head.logits, logits);
  return logits;
}

}  // namespace favor::models
