#include "models/language_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/matmul.h"
#include "layers/cross_entropy.h"
#include "models/first_values.h"

namespace favor::models {
namespace {

// Copies rows of `width` items: to[i] = from[rows[i]] or, back, to[rows[i]] = from[i].
void Gather(const ConstView& from, std::span<const int64_t> rows, const View& to) {
  const auto bytes = static_cast<size_t>(from.size(1) * ItemBytes(from.type()));
  auto* out = static_cast<char*>(to.data());
  for (const int64_t row : rows) {
    std::memcpy(out, static_cast<const char*>(from.data()) + static_cast<size_t>(row) * bytes,
                bytes);
    out += bytes;
  }
}
void Scatter(const ConstView& from, std::span<const int64_t> rows, const View& to) {
  const auto bytes = static_cast<size_t>(from.size(1) * ItemBytes(from.type()));
  const auto* in = static_cast<const char*>(from.data());
  for (const int64_t row : rows) {
    std::memcpy(static_cast<char*>(to.data()) + static_cast<size_t>(row) * bytes, in, bytes);
    in += bytes;
  }
}

}  // namespace

LanguageModel::LanguageModel(const ModelConfig& config, const NetworkOptions& options)
    : Network(config, options),
      output_(config.tied ? &body_.tokens().weight()
                          : &parameters_.Add("output.weight", {config.vocab, config.width},
                                             {.deviation = OutputDeviation(config)}, true)) {}

int64_t LanguageModel::ChunkRows() const {
  return std::clamp<int64_t>((int64_t{1} << 20) / config_.vocab, 256, 4096);
}

PassBuffers::Head LanguageModel::PlanHead(layers::Arena& arena,
                                          const Transformer::Shape& shape) const {
  const int64_t rows = std::min(ChunkRows(), shape.tokens());
  PassBuffers::Head head;
  head.rows = arena.Take({rows, config_.width});
  if (shape.training) head.grad_rows = arena.Take({rows, config_.width});
  head.logits = arena.Take({rows, config_.vocab});
  return head;
}

Score LanguageModel::Forward(const Batch& batch, const layers::Pass& pass,
                             PassBuffers& buffers) const {
  return Loss(batch, pass, /*grad_scale=*/0, buffers);
}

std::vector<Score> LanguageModel::ForwardGroups(const Batch& batch, std::span<const uint8_t> groups,
                                                const layers::Pass& pass,
                                                PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  std::vector<Score> scores(groups.empty() ? 0 : size_t{*std::ranges::max_element(groups)} + 1);
  for (size_t group = 0; group < scores.size(); ++group) {
    std::vector<int32_t> targets = batch.targets;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (groups[i] != group) targets[i] = kNoTarget;
    }
    scores[group] = HeadLoss(hidden, targets, pass, /*grad_scale=*/0, buffers);
  }
  return scores;
}

Score LanguageModel::ForwardBackward(const Batch& batch, const layers::Pass& pass,
                                     double grad_scale, PassBuffers& buffers) {
  const Score score = Loss(batch, pass, grad_scale, buffers);
  if (std::isfinite(score.loss)) body_.Backward(pass, batch, buffers.activations);
  return score;
}

Tensor LanguageModel::ForwardLogits(const Batch& batch, const layers::Pass& pass,
                                    PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  Tensor logits({batch.batch, batch.length, config_.vocab}, hidden.type());
  const Shape rows{hidden.size(0), config_.vocab};
  kernels::Matmul(
      {hidden, kernels::Transposed(output_->value),
       View(logits.view().data(), hidden.type(), rows, RowMajorStrides(rows), Device{})},
      pass.context);
  return logits;
}

Tensor LanguageModel::ForwardLast(const Batch& batch, const layers::Pass& pass, Memory& memory,
                                  PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations, &memory);
  Tensor logits({1, config_.vocab});
  kernels::Matmul(
      {hidden.Range(0, batch.length - 1, 1), kernels::Transposed(output_->value), logits.view()},
      pass.context);
  return logits;
}

Score LanguageModel::Loss(const Batch& batch, const layers::Pass& pass, double grad_scale,
                          PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  return HeadLoss(hidden, batch.targets, pass, grad_scale, buffers);
}

Score LanguageModel::HeadLoss(const ConstView& hidden, std::span<const int32_t> targets,
                              const layers::Pass& pass, double grad_scale,
                              PassBuffers& buffers) const {
  const Context& context = pass.context;
  const PassBuffers::Head& head = buffers.head;
  const View grad_hidden = buffers.activations.grad;
  if (grad_scale != 0) {
    std::memset(
        grad_hidden.data(), 0,
        static_cast<size_t>(grad_hidden.shape().Elements() * ItemBytes(grad_hidden.type())));
  }
  std::vector<int64_t> places;
  std::vector<int32_t> asked;
  Score score;
  const auto flush = [&] {
    if (asked.empty()) return;
    const auto count = static_cast<int64_t>(asked.size());
    const View logits = head.logits.Range(0, 0, count), rows = head.rows.Range(0, 0, count);
    Gather(hidden, places, rows);
    kernels::Matmul({rows, kernels::Transposed(output_->value), logits}, context);
    score += layers::CrossEntropy(context, logits, asked, grad_scale);
    if (grad_scale != 0) {
      const View grad_rows = head.grad_rows.Range(0, 0, count);
      kernels::Matmul({logits, output_->value, grad_rows}, context);
      kernels::Matmul({kernels::Transposed(logits), rows, output_->grad, /*add=*/true}, context);
      Scatter(grad_rows, places, grad_hidden);
    }
    places.clear();
    asked.clear();
  };
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kNoTarget) continue;
    places.push_back(static_cast<int64_t>(i));
    asked.push_back(targets[i]);
    if (static_cast<int64_t>(asked.size()) == head.logits.size(0)) flush();
  }
  flush();
  return score;
}

}  // namespace favor::models
