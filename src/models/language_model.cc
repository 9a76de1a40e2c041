#include "models/language_model.h"

#include <algorithm>

#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"
#include "kernels/rows.h"
#include "models/first_values.h"

namespace favor::models {
LanguageModel::LanguageModel(const ModelConfig& config, const NetworkOptions& options)
    : Network(config, options),
      output_(config.tied ? &body_.tokens().weight()
                          : &parameters_.Add("output.weight", {config.vocab, config.width},
                                             {.deviation = OutputDeviation(config)}, true)) {}

int64_t LanguageModel::ChunkRows() const {
  return std::clamp<int64_t>((int64_t{1} << 20) / config_.vocab, 256, 4096);
}

PassBuffers::Output LanguageModel::ReserveOutput(layers::Arena& arena,
                                                 const Transformer::Shape& shape) const {
  const int64_t rows = std::min(ChunkRows(), shape.tokens());
  PassBuffers::Output head;
  head.rows = arena.Take({rows, config_.width});
  if (shape.training) head.grad_rows = arena.Take({rows, config_.width});
  head.logits = arena.Take({rows, config_.vocab});
  return head;
}

void LanguageModel::Forward(const Batch& batch, const layers::Pass& pass,
                            PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  TargetLoss(hidden, batch.targets, pass.context, {.tally = pass.tally->At()}, buffers);
}

void LanguageModel::ForwardGroups(const Batch& batch, std::span<const uint8_t> groups,
                                  const layers::Pass& pass, PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  for (int64_t group = 0; group < pass.tally->entries() - TallyEntries(); ++group) {
    std::vector<int32_t> targets = batch.targets;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (groups[i] != group) targets[i] = kNoTarget;
    }
    TargetLoss(hidden, targets, pass.context, {.tally = pass.tally->At(TallyEntries() + group)},
               buffers);
  }
}

void LanguageModel::ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                                    PassBuffers& buffers) {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  TargetLoss(hidden, batch.targets, pass.context,
             {.grad_scale = grad_scale, .tally = pass.tally->At()}, buffers);
  body_.Backward(pass, buffers.activations);
}

Tensor LanguageModel::ForwardLosses(const Batch& batch, const layers::Pass& pass,
                                    PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  const int64_t targets = std::ssize(batch.targets) - std::ranges::count(batch.targets, kNoTarget);
  Tensor losses({targets}, DataType::kF64, hidden.device());
  TargetLoss(hidden, batch.targets, pass.context,
             {.tally = pass.tally->At(), .losses = losses.Data<double>()}, buffers);
  return losses;
}

Tensor LanguageModel::ForwardLogits(const Batch& batch, const layers::Pass& pass,
                                    PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  Tensor logits({batch.batch, batch.length, config_.vocab}, hidden.type(), hidden.device());
  const Shape rows{hidden.size(0), config_.vocab};
  kernels::Matmul(
      {hidden, kernels::Transposed(output_->read),
       View(logits.view().data(), hidden.type(), rows, RowMajorStrides(rows), hidden.device())},
      pass.context);
  return logits;
}

void LanguageModel::ForwardLast(const Batch& batch, const layers::Pass& pass, Cache& cache,
                                PassBuffers& buffers, View logits) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations, &cache);
  kernels::Matmul(
      {hidden.Range(0, batch.length - 1, 1), kernels::Transposed(output_->read), logits},
      pass.context);
}

void LanguageModel::TargetLoss(const ConstView& hidden, std::span<const int32_t> targets,
                               const Context& context, const LossOptions& options,
                               PassBuffers& buffers) const {
  const PassBuffers::Output& head = buffers.output;
  const View grad_hidden = buffers.activations.grad;
  const bool gradients = options.grad_scale != 0;
  if (gradients) kernels::Zero({.y = grad_hidden}, context);
  std::vector<int64_t> places;
  std::vector<int32_t> wanted;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kNoTarget) continue;
    places.push_back(static_cast<int64_t>(i));
    wanted.push_back(targets[i]);
  }
  const int64_t* all_places = buffers.places_memory.Send(places, context);
  const int32_t* all_targets = buffers.targets_memory.Send(wanted, context);
  const int64_t all = std::ssize(wanted), most = head.logits.size(0);
  for (int64_t first = 0; first < all; first += most) {
    const int64_t count = std::min(most, all - first);
    const View logits = head.logits.Range(0, 0, count), rows = head.rows.Range(0, 0, count);
    kernels::GatherRows({.from = hidden, .places = all_places + first, .to = rows}, context);
    kernels::Matmul({rows, kernels::Transposed(output_->read), logits}, context);
    kernels::CrossEntropy({.targets = all_targets + first,
                           .grad_scale = options.grad_scale,
                           .logits = logits,
                           .tally = options.tally,
                           .losses = options.losses == nullptr ? nullptr : options.losses + first},
                          context);
    if (!gradients) continue;
    const View grad_rows = head.grad_rows.Range(0, 0, count);
    kernels::Matmul({logits, output_->read, grad_rows}, context);
    if (!output_->frozen)
      kernels::Matmul({kernels::Transposed(logits), rows, output_->grad, /*add=*/true}, context);
    kernels::ScatterRows({.from = grad_rows, .places = all_places + first, .to = grad_hidden},
                         context);
  }
}

}  // namespace favor::models
