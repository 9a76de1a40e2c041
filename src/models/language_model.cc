#include "models/language_model.h"

#include <algorithm>
#include <utility>

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

// On a CPU logits stay in the cache; on a GPU they are many enough to fill it with work.
int64_t LanguageModel::ChunkRows() const {
  constexpr int64_t kFewest = 256, kMostLogits = int64_t{1} << 25, kMostGathered = 1 << 23;
  if (parameters_.device().type == DeviceType::kCuda)
    return std::max(
        {kFewest, std::min(kMostLogits / config_.vocab, kMostGathered / config_.width)});
  return std::clamp<int64_t>((int64_t{1} << 20) / config_.vocab, kFewest, 4096);
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
  const Wanted wanted = SendTargets(batch.targets, pass.context, buffers);
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  TargetLoss(hidden, wanted, pass.context, {.tally = pass.tally->At()}, buffers);
}

void LanguageModel::ForwardGroups(const Batch& batch, std::span<const uint8_t> groups,
                                  const layers::Pass& pass, PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  for (int64_t group = 0; group < pass.tally->entries() - TallyEntries(); ++group) {
    std::vector<int32_t> targets = batch.targets;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (groups[i] != group) targets[i] = kNoTarget;
    }
    TargetLoss(hidden, SendTargets(std::move(targets), pass.context, buffers), pass.context,
               {.tally = pass.tally->At(TallyEntries() + group)}, buffers);
  }
}

void LanguageModel::ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                                    PassBuffers& buffers) {
  const Wanted wanted = SendTargets(batch.targets, pass.context, buffers);
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  TargetLoss(hidden, wanted, pass.context, {.grad_scale = grad_scale, .tally = pass.tally->At()},
             buffers);
  body_.Backward(pass, buffers.activations);
}

Tensor LanguageModel::ForwardLosses(const Batch& batch, const layers::Pass& pass,
                                    PassBuffers& buffers) const {
  const Wanted wanted = SendTargets(batch.targets, pass.context, buffers);
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  Tensor losses({std::ssize(wanted.host_targets)}, DataType::kF64, hidden.device());
  TargetLoss(hidden, wanted, pass.context,
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

void LanguageModel::ForwardLast(const Context& context, const ConstView& hidden,
                                View logits) const {
  kernels::Matmul({hidden, kernels::Transposed(output_->read), logits}, context);
}

LanguageModel::Wanted LanguageModel::SendTargets(std::vector<int32_t> targets,
                                                 const Context& context, PassBuffers& buffers) {
  Wanted wanted{.host_targets = std::move(targets)};
  wanted.is_every_row =
      std::ranges::find(wanted.host_targets, kNoTarget) == wanted.host_targets.end();
  if (!wanted.is_every_row) {
    for (size_t i = 0; i < wanted.host_targets.size(); ++i) {
      if (wanted.host_targets[i] != kNoTarget)
        wanted.host_places.push_back(static_cast<int64_t>(i));
    }
    std::erase(wanted.host_targets, kNoTarget);
    wanted.places = buffers.places_memory.Send(wanted.host_places, context);
  }
  wanted.targets = buffers.targets_memory.Send(wanted.host_targets, context);
  return wanted;
}

void LanguageModel::TargetLoss(const ConstView& hidden, const Wanted& wanted,
                               const Context& context, const LossOptions& options,
                               const PassBuffers& buffers) const {
  const PassBuffers::Output& head = buffers.output;
  const View grad_hidden = buffers.activations.grad;
  const bool gradients = options.grad_scale != 0, gathers = !wanted.is_every_row;
  if (gradients && gathers) kernels::Zero({.y = grad_hidden}, context);
  const int64_t all = std::ssize(wanted.host_targets), most = head.logits.size(0);
  for (int64_t first = 0; first < all; first += most) {
    const int64_t count = std::min(most, all - first);
    const View logits = head.logits.Range(0, 0, count);
    const ConstView rows = gathers ? head.rows.Range(0, 0, count) : hidden.Range(0, first, count);
    if (gathers) {
      kernels::GatherRows(
          {.from = hidden, .places = wanted.places + first, .to = head.rows.Range(0, 0, count)},
          context);
    }
    kernels::Matmul({rows, kernels::Transposed(output_->read), logits}, context);
    kernels::CrossEntropy({.targets = wanted.targets + first,
                           .grad_scale = options.grad_scale,
                           .logits = logits,
                           .tally = options.tally,
                           .losses = options.losses == nullptr ? nullptr : options.losses + first},
                          context);
    if (!gradients) continue;
    const View grad_rows =
        gathers ? head.grad_rows.Range(0, 0, count) : grad_hidden.Range(0, first, count);
    kernels::Matmul({logits, output_->read, grad_rows}, context);
    if (!output_->frozen)
      kernels::Matmul({kernels::Transposed(logits), rows, output_->grad, /*add=*/true}, context);
    if (gathers) {
      kernels::ScatterRows({.from = grad_rows, .places = wanted.places + first, .to = grad_hidden},
                           context);
    }
  }
}

}  // namespace favor::models
