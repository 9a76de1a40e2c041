#include "models/network.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "core/host_copy.h"
#include "kernels/copy.h"
#include "models/gpu_support.h"
#include "models/labeller.h"
#include "models/language_model.h"

namespace favor::models {
namespace {

// Checks everything: the batch may come from anywhere.
void CheckBatch(const Batch& batch, const ModelConfig& config, bool targets) {
  const size_t tokens = batch.tokens.size();
  const auto rows = static_cast<size_t>(std::max<int64_t>(batch.batch, 0));
  if (batch.batch < 1 || batch.length < 1 || tokens % rows != 0 ||
      static_cast<int64_t>(tokens / rows) != batch.length ||
      (!batch.mask.empty() && batch.mask.size() != tokens)) {
    Throw(ErrorCode::kInvalidData, "batch", "given {} tokens and a mask of {}, expected {} × {}",
          batch.tokens.size(), batch.mask.size(), batch.batch, batch.length);
  }
  if (config.positions == Positions::kLearned && batch.length > config.max_length) {
    Throw(ErrorCode::kInvalidOption, "length",
          "given {}, expected at most {}: the model has no more learned positions", batch.length,
          config.max_length);
  }
  const auto outside = [](const std::vector<int32_t>& values, int64_t least, int64_t end) {
    return std::ranges::find_if(values,
                                [=](int32_t value) { return value < least || value >= end; });
  };
  if (const auto bad = outside(batch.tokens, 0, config.vocab); bad != batch.tokens.end()) {
    Throw(ErrorCode::kInvalidData, "batch", "given the token {}, expected 0 to {}", *bad,
          config.vocab - 1);
  }
  if (!targets) return;
  const bool of_sequences = config.classes > 0 && !config.per_token;
  const size_t expected = of_sequences ? static_cast<size_t>(batch.batch) : tokens;
  const int64_t end = config.classes > 0 ? config.classes : config.vocab;
  const size_t given = config.numbers ? batch.values.size() : batch.targets.size();
  if (given != expected)
    Throw(ErrorCode::kInvalidData, "batch", "given {} targets, expected {}", given, expected);
  const int32_t least = of_sequences ? 0 : kNoTarget;  // every sequence has a class
  if (config.numbers) {
    const bool finite = std::ranges::none_of(batch.values, [&](float value) {
      return std::isinf(value) || (of_sequences && std::isnan(value));
    });
    if (!finite)
      Throw(ErrorCode::kInvalidData, "batch", "given a value that is not finite, expected numbers");
    return;
  }
  if (const auto bad = outside(batch.targets, least, end); bad != batch.targets.end())
    Throw(ErrorCode::kInvalidData, "batch", "given the target {}, expected 0 to {}", *bad, end - 1);
}

[[noreturn]] void RefuseToContinue(const ModelConfig& config) {
  Throw(ErrorCode::kInvalidOption, "model", "given {}, expected one that predicts the next token",
        config.classes > 0 ? "a model of labels" : "an encoder, which fills in masked tokens");
}

}  // namespace

NetworkOptions OptionsAt(const Placement& placement, uint64_t seed) {
  const auto& [device, pass_type] = placement;
  const bool on_gpu = device.type == DeviceType::kCuda;
  if (pass_type != DataType::kF32 && !(on_gpu && pass_type == DataType::kBF16))
    Throw(ErrorCode::kUnavailable, "precision", "given {} on {}, expected {}", Name(pass_type),
          Name(device), on_gpu ? "f32 or bf16" : "f32; bf16 runs on a GPU");
  return {.seed = seed, .pass_type = pass_type, .device = device};
}

Score ScoreOf(const TallyEntry& entry) {
  return {.loss = entry.loss, .correct = entry.correct, .count = entry.targets};
}

Tensor OnHost(Tensor array, const Context& context) {
  if (array.device() == Device{}) return array;
  context.Wait();
  Tensor copy = array.To(Device{});
  return ItemBytes(copy.type()) < 4 ? copy.To(DataType::kF32) : std::move(copy);
}

std::unique_ptr<Network> Network::Make(const ModelConfig& config, const NetworkOptions& options) {
  CheckConfig(config);
  if (options.device.type == DeviceType::kCuda) CheckRunsOnGpu(config, options.device);
  std::unique_ptr<Network> network;
  if (config.classes > 0) {
    network = std::make_unique<Labeller>(config, options);
  } else {
    network = std::make_unique<LanguageModel>(config, options);
  }
  network->parameters_.Allocate();
  if (!options.shapes_only) network->Redraw(0);
  return network;
}

Network::Network(const ModelConfig& config, const NetworkOptions& options)
    : config_(config),
      options_(options),
      parameters_({.seed = options.seed,
                   .type = options.type,
                   .pass_type = options.pass_type,
                   .device = options.device,
                   .shapes_only = options.shapes_only,
                   .draw = options.draw}),
      body_(parameters_, config_) {}

void Network::Redraw(uint64_t redraw) {
  redraw_ = redraw;
  body_.Redraw(options_.seed, redraw);
}

void Network::Redraw(uint64_t seed, uint64_t redraw) {
  options_.seed = seed;
  Redraw(redraw);
}

void Network::Freeze(int64_t layers) {
  if (layers < 0 || layers > config_.layers) {
    Throw(ErrorCode::kInvalidOption, "freeze", "given {}, expected 0 to {}, the number of layers",
          layers, config_.layers);
  }
  body_.Freeze(layers);
  parameters_.Freeze([&](const std::string& name) { return body_.IsFrozen(name); });
  if (parameters_.segments().count == 0)
    Throw(ErrorCode::kInvalidOption, "freeze", "given {}, which leaves nothing to learn", layers);
}

void Network::Check(const Batch& batch) const { CheckBatch(batch, config_, /*targets=*/true); }

void Network::Prepare(const Transformer::Shape& shape, PassBuffers& buffers) const {
  if (shape == buffers.activations.shape) return;
  buffers.activations.shape = {};  // no shape, in case the allocation fails
  buffers.activations.blocks.clear();
  buffers.arena.Count();
  Count(shape, buffers.arena);
  buffers.arena.Provide();
  body_.Reserve(buffers.arena, shape, buffers.activations);
  buffers.output = ReserveOutput(buffers.arena, shape);
}

void Network::Count(const Transformer::Shape& shape, layers::Arena& arena) const {
  Transformer::Activations activations;
  body_.Reserve(arena, shape, activations);
  ReserveOutput(arena, shape);
}

int64_t Network::BufferBytes(const Transformer::Shape& shape) const {
  layers::Arena arena(parameters_.pass_type(), parameters_.device());
  Count(shape, arena);
  return arena.Bytes();
}

void Network::CheckContext(const Context& context) const {
  if (context.device() != parameters_.device()) {
    Throw(ErrorCode::kInvalidOption, "context", "given one on {}, but the model is on {}",
          Name(context.device()), Name(parameters_.device()));
  }
}

void Network::CheckPass(const Batch& batch, const Context& context, bool targets) const {
  CheckContext(context);
  CheckBatch(batch, config_, targets);
}

void Network::PrepareToEvaluate(const Batch& batch, const layers::Pass& pass,
                                PassBuffers& buffers) const {
  CheckPass(batch, pass.context, /*targets=*/true);
  // Buffers of a training pass of this shape are large enough, so that evaluation during training
  // reuses them.
  const Transformer::Shape& shape = buffers.activations.shape;
  if (!shape.training || shape.batch != batch.batch || shape.length != batch.length)
    Prepare({.batch = batch.batch, .length = batch.length}, buffers);
}

void Network::Evaluate(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const {
  PrepareToEvaluate(batch, pass, buffers);
  Forward(batch, pass, buffers);
}

void Network::EvaluateGroups(const Batch& batch, std::span<const uint8_t> groups,
                             const layers::Pass& pass, PassBuffers& buffers) const {
  if (groups.size() != batch.targets.size()) {
    Throw(ErrorCode::kInvalidOption, "groups", "given {}, expected one for each of {} targets",
          groups.size(), batch.targets.size());
  }
  PrepareToEvaluate(batch, pass, buffers);
  ForwardGroups(batch, groups, pass, buffers);
}

void Network::ForwardGroups(const Batch&, std::span<const uint8_t>, const layers::Pass&,
                            PassBuffers&) const {
  Throw(ErrorCode::kInvalidOption, "groups",
        "given for a model of labels, expected a language model");
}

Tensor Network::Losses(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const {
  PrepareToEvaluate(batch, pass, buffers);
  return ForwardLosses(batch, pass, buffers);
}

Tensor Network::ForwardLosses(const Batch&, const layers::Pass&, PassBuffers&) const {
  Throw(ErrorCode::kInvalidOption, "model", "given a model of labels, expected a language model");
}

Tensor Network::Logits(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const {
  CheckPass(batch, pass.context, /*targets=*/false);
  Prepare({.batch = batch.batch, .length = batch.length}, buffers);
  return ForwardLogits(batch, pass, buffers);
}

Tensor Network::Hidden(const Batch& batch, int64_t layers, const layers::Pass& pass,
                       PassBuffers& buffers) const {
  CheckPass(batch, pass.context, /*targets=*/false);
  if (layers < 0 || layers > config_.layers) {
    Throw(ErrorCode::kInvalidOption, "layer", "given {}, expected 0 (the embedding) to {}", layers,
          config_.layers);
  }
  Prepare({.batch = batch.batch, .length = batch.length}, buffers);
  const ConstView rows = body_.ForwardThrough(layers, pass, batch, buffers.activations);
  Tensor hidden({batch.batch, batch.length, config_.width}, rows.type(), rows.device());
  kernels::Copy({.from = rows,
                 .to = View(hidden.view().data(), rows.type(), rows.shape(),
                            RowMajorStrides(rows.shape()), rows.device())},
                pass.context);
  return hidden;
}

std::vector<TallyEntry> Network::Read(const Tally& tally, std::span<float> floats) const {
  std::vector<TallyEntry> entries = tally.Read(floats);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    if (const int64_t rows = entries[static_cast<size_t>(1 + layer)].unusable; rows > 0)
      Throw(ErrorCode::kInvalidData, fmt::format("layers.{}", layer),
            "attention was given {} rows with NaN, infinity or numbers out of range", rows);
  }
  return entries;
}

void Network::WeighClasses(std::vector<float>) {
  Throw(ErrorCode::kInvalidOption, "class_weights", "given for a model without classes");
}

Cache Network::MakeCache() const {
  if (!config_.causal || config_.classes > 0) RefuseToContinue(config_);
  return body_.MakeCache();
}

void Network::ForwardLast(const Context&, const ConstView&, View) const {
  RefuseToContinue(config_);
}

void Network::PrepareToContinue(const Batch& batch, const Context& context, Cache& cache,
                                PassBuffers& buffers) const {
  CheckPass(batch, context, /*targets=*/false);
  if (config_.positions == Positions::kLearned &&
      cache.tokens + batch.length > config_.max_length) {
    Throw(ErrorCode::kInvalidOption, "length",
          "given {} tokens after {}, expected at most {} in all: the model has no more learned "
          "positions",
          batch.length, cache.tokens, config_.max_length);
  }
  Prepare({.batch = batch.batch, .length = batch.length}, buffers);
  cache.whole = false;
}

View Network::LogitsOf(const Tally& tally) const {
  const View floats = tally.Floats();
  const Shape rows{floats.size(0) / config_.vocab, config_.vocab};
  return {floats.data(), floats.type(), rows, RowMajorStrides(rows), floats.device()};
}

void Network::Continue(std::span<const int32_t> tokens, const layers::Pass& pass, Cache& cache,
                       PassBuffers& buffers) const {
  const auto length = static_cast<int64_t>(tokens.size());
  const Batch batch{.batch = 1, .length = length, .tokens = {tokens.begin(), tokens.end()}};
  PrepareToContinue(batch, pass.context, cache, buffers);
  const ConstView hidden = body_.Forward(pass, batch, buffers.activations, &cache);
  ForwardLast(pass.context, hidden.Range(0, length - 1, 1), LogitsOf(*pass.tally));
}

void Network::SendStep(std::span<const int32_t> tokens, const Context& context, Cache& cache,
                       PassBuffers& buffers) const {
  const Batch batch{
      .batch = cache.sequences, .length = 1, .tokens = {tokens.begin(), tokens.end()}};
  PrepareToContinue(batch, context, cache, buffers);
  body_.SendStep(context, batch.tokens, cache.tokens, buffers.activations);
}

void Network::Step(const layers::Pass& pass, Cache& cache, PassBuffers& buffers) const {
  const ConstView hidden = body_.ForwardStep(pass, buffers.activations, cache);
  ForwardLast(pass.context, hidden, LogitsOf(*pass.tally));
}

void Network::EvaluateAndBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                                  PassBuffers& buffers) {
  CheckPass(batch, pass.context, /*targets=*/true);
  Prepare({.batch = batch.batch,
           .length = batch.length,
           .training = true,
           .recompute = buffers.recompute},
          buffers);
  ForwardBackward(batch, pass, grad_scale, buffers);
}

std::string Network::FirstNotFinite(const PassBuffers& buffers) const {
  const auto is_finite = [](const ConstView& array) { return AllFinite(HostCopy(array).view()); };
  for (const auto& parameter : parameters_.all()) {
    if (!is_finite(parameter->value)) return parameter->name;
  }
  if (buffers.activations.shape.training) {
    if (std::string layer = body_.FirstNotFinite(buffers.activations); !layer.empty()) return layer;
  }
  // Gradients run from the last layer to the first.
  for (auto parameter = parameters_.all().rbegin(); parameter != parameters_.all().rend();
       ++parameter) {
    if (!(*parameter)->grad.empty() && !is_finite((*parameter)->grad))
      return "the gradient of " + (*parameter)->name;
  }
  return "";
}

}  // namespace favor::models
