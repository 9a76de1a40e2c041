#include "models/labeller.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/mean_pool.h"
#include "kernels/rows.h"
#include "kernels/squared_error.h"

namespace favor::models {
namespace {

// Numbers of the labels of a batch that are known.
std::vector<int64_t> Known(const Batch& batch, bool numbers) {
  std::vector<int64_t> known;
  const size_t all = numbers ? batch.values.size() : batch.targets.size();
  for (size_t i = 0; i < all; ++i) {
    if (numbers ? !std::isnan(batch.values[i]) : batch.targets[i] != kNoTarget)
      known.push_back(static_cast<int64_t>(i));
  }
  return known;
}

// Those of `labels` that are known.
template <class Label>
std::vector<Label> Chosen(const std::vector<Label>& labels, const std::vector<int64_t>& known) {
  std::vector<Label> chosen;
  for (const int64_t i : known) chosen.push_back(labels[static_cast<size_t>(i)]);
  return chosen;
}

}  // namespace

Labeller::Labeller(const ModelConfig& config, const NetworkOptions& options)
    : Network(config, options), output_(parameters_, "classifier", config.width, config.classes) {}

void Labeller::WeighClasses(std::vector<float> weights) {
  const auto usable = [](float weight) { return weight > 0 && std::isfinite(weight); };
  if (config_.numbers || std::ssize(weights) != config_.classes ||
      !std::ranges::all_of(weights, usable)) {
    Throw(ErrorCode::kInvalidOption, "class_weights",
          "expected one number above 0 for each class, of a model that predicts classes");
  }
  class_weights_ = std::move(weights);
}

PassBuffers::Output Labeller::ReserveOutput(layers::Arena& arena,
                                            const Transformer::Shape& shape) const {
  const int64_t rows = config_.per_token ? shape.tokens() : shape.batch;
  PassBuffers::Output head;
  head.rows = arena.Take({rows, config_.width});
  if (shape.training) head.grad_rows = arena.Take({rows, config_.width});
  head.logits = arena.Take({rows, config_.classes});
  return head;
}

void Labeller::Pool(const ConstView& hidden, const layers::Pass& pass, PassBuffers& buffers) const {
  kernels::MeanPool(
      {.x = hidden, .sequences = buffers.activations.input.sequences, .y = buffers.output.rows},
      pass.context);
}

Labeller::Rows Labeller::Outputs(const Batch& batch, const layers::Pass& pass,
                                 PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  const Context& context = pass.context;
  const PassBuffers::Output& head = buffers.output;
  Rows rows{.known = Known(batch, config_.numbers)};
  const int64_t count = std::ssize(rows.known);
  rows.rows = head.rows.Range(0, 0, count);
  rows.logits = head.logits.Range(0, 0, count);
  if (config_.per_token) {
    rows.places = buffers.places_memory.Send(rows.known, context);
    kernels::GatherRows({.from = hidden, .places = rows.places, .to = rows.rows}, context);
  } else {
    Pool(hidden, pass, buffers);
  }
  output_.Forward(context, rows.rows, rows.logits);
  return rows;
}

void Labeller::Loss(const Batch& batch, const layers::Pass& pass, double grad_scale,
                    const Rows& rows, PassBuffers& buffers) const {
  if (config_.numbers) {
    const std::vector<float> wanted = Chosen(batch.values, rows.known);
    kernels::SquaredError({.targets = buffers.values_memory.Send(wanted, pass.context),
                           .grad_scale = grad_scale,
                           .y = rows.logits,
                           .tally = pass.tally->At()},
                          pass.context);
    return;
  }
  const std::vector<int32_t> wanted = Chosen(batch.targets, rows.known);
  kernels::CrossEntropy({.targets = buffers.targets_memory.Send(wanted, pass.context),
                         .weights = class_weights_.empty()
                                        ? nullptr
                                        : buffers.weights_memory.Send(class_weights_, pass.context),
                         .grad_scale = grad_scale,
                         .logits = rows.logits,
                         .tally = pass.tally->At()},
                        pass.context);
}

void Labeller::Forward(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const {
  const Rows rows = Outputs(batch, pass, buffers);
  Loss(batch, pass, /*grad_scale=*/0, rows, buffers);
}

void Labeller::ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                               PassBuffers& buffers) {
  const Rows rows = Outputs(batch, pass, buffers);
  Loss(batch, pass, grad_scale, rows, buffers);
  const Context& context = pass.context;
  const View grad = buffers.activations.grad,
             grad_rows = buffers.output.grad_rows.Range(0, 0, std::ssize(rows.known));
  output_.Backward(context, rows.rows, rows.logits, grad_rows);
  if (config_.per_token) {
    kernels::Zero({.y = grad}, context);
    kernels::ScatterRows({.from = grad_rows, .places = rows.places, .to = grad}, context);
  } else {
    kernels::MeanPoolBackward(
        {.grad_y = grad_rows, .sequences = buffers.activations.input.sequences, .grad_x = grad},
        context);
  }
  body_.Backward(pass, buffers.activations);
}

Tensor Labeller::ForwardLogits(const Batch& batch, const layers::Pass& pass,
                               PassBuffers& buffers) const {
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations);
  const Context& context = pass.context;
  if (config_.per_token) {
    Tensor logits({batch.batch, batch.length, config_.classes}, hidden.type(), hidden.device());
    const Shape rows{hidden.size(0), config_.classes};
    output_.Forward(
        context, hidden,
        View(logits.view().data(), hidden.type(), rows, RowMajorStrides(rows), hidden.device()));
    return logits;
  }
  Pool(hidden, pass, buffers);
  Tensor logits({batch.batch, config_.classes}, hidden.type(), hidden.device());
  output_.Forward(context, buffers.output.rows, logits.view());
  return logits;
}

}  // namespace favor::models
