#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "core/host_copy.h"
#include "favor/random.h"
#include "layers/dropout.h"
#include "models/first_values.h"

namespace favor::models {
namespace {

// Dropout of embeddings; blocks use the places below.
constexpr uint64_t kEmbeddingPlace = uint64_t{1} << 32;

// Options of the tables of tokens and of learned positions.
layers::EmbeddingOptions EmbeddingOptionsOf(const ModelConfig& config) {
  const double root = std::sqrt(static_cast<double>(config.width));
  return {.deviation = EmbeddingDeviation(config), .scale = config.embedding_scale.value_or(root)};
}

}  // namespace

Cache Cache::Fork(int64_t times) const {
  Cache all{
      .sequences = sequences * times, .tokens = tokens, .layers = {}, .kept = kept, .whole = whole};
  for (const layers::AttentionCache& layer : layers) all.layers.push_back(layer.Fork(times));
  return all;
}

int64_t Cache::Bytes() const {
  int64_t bytes = 0;
  for (const layers::AttentionCache& layer : layers) bytes += layer.Bytes();
  return bytes;
}

bool Cache::StaysInPlace() const {
  return std::ranges::all_of(
      layers, [](const layers::AttentionCache& layer) { return layer.StaysInPlace(); });
}

void Cache::Advance(int64_t more) {
  for (layers::AttentionCache& layer : layers) layer.Advance(more);
}

Cache Transformer::MakeCache() const {
  Cache cache;
  for (const Block& block : blocks_) cache.layers.push_back(block.MakeCache(type_, device_));
  cache.kept.resize(blocks_.size());
  return cache;
}

Transformer::Transformer(layers::ParameterSet& parameters, const ModelConfig& config)
    : config_(config),
      type_(parameters.pass_type()),
      device_(parameters.device()),
      tokens_(parameters, "embedding", {config.vocab, config.width}, EmbeddingOptionsOf(config)) {
  if (config.positions == Positions::kLearned)
    learned_.emplace(parameters, "positions", favor::Shape{config.max_length, config.width},
                     EmbeddingOptionsOf(config));
  blocks_.reserve(static_cast<size_t>(config.layers));
  for (int64_t layer = 0; layer < config.layers; ++layer)
    blocks_.emplace_back(parameters, config, layer);
  if (config.norm == Norm::kPre) {
    norm_.emplace(parameters, "norm", config.width,
                  layers::NormOptions{.epsilon = config.norm_epsilon, .gain = LastGain(config)});
  }
}

bool Transformer::IsFrozen(const std::string& parameter) const {
  if (frozen_ == 0) return false;
  for (int64_t layer = 0; layer < frozen_; ++layer) {
    if (parameter.starts_with(fmt::format("layers.{}.", layer))) return true;
  }
  return parameter.starts_with("embedding.") || parameter.starts_with("positions.");
}

void Transformer::Redraw(uint64_t seed, uint64_t redraw) {
  const RandomStream stream(seed, "omega of layers");
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    blocks_[layer].Redraw(stream.Bits(layer), redraw);
}

void Transformer::Reserve(layers::Arena& arena, const Shape& shape, Activations& a) const {
  const int64_t tokens = shape.tokens(), width = config_.width;
  const bool keep = shape.training && !shape.recompute;
  a.shape = shape;
  a.inputs.clear();
  a.blocks.clear();
  const size_t inputs = shape.training ? blocks_.size() + 1 : 2;
  for (size_t i = 0; i < inputs; ++i) a.inputs.push_back(arena.Take({tokens, width}));
  for (size_t i = 0; i < (keep ? blocks_.size() : 1); ++i)
    a.blocks.push_back(blocks_[0].Reserve(arena, tokens));  // no layer needs more than the first
  a.workspace = blocks_[0].ReserveWorkspace(arena, tokens, shape.training);
  if (norm_) {
    a.statistics = arena.TakeExact({tokens, 2});
    a.hidden = arena.Take({tokens, width});
  }
  a.grad = shape.training ? arena.Take({tokens, width}) : View();
  if (a.waves) return;
  // 16 bits are too few for angles.
  const DataType of_waves = ItemBytes(type_) < 4 ? DataType::kF32 : type_;
  if (config_.positions == Positions::kSinusoidal) a.waves.emplace(width, of_waves, device_);
  if (config_.positions == Positions::kRotary)
    a.waves.emplace(width / config_.heads, of_waves, device_);
}

int64_t Transformer::TraceBytes(const Shape& shape) const {
  if (!shape.training) return 0;
  int64_t all = 0, most = 0;
  for (const Block& block : blocks_) {
    const int64_t bytes = block.TraceBytes(shape.batch, shape.length, type_, device_);
    all += bytes;
    most = std::max(most, bytes);
  }
  return shape.recompute ? most : all;
}

Block::Rows Transformer::RowsOf(const Activations& a) const {
  return {.attention = {.sequences = a.input.sequences,
                        .rotary = config_.positions == Positions::kRotary ? &*a.waves : nullptr,
                        .first = a.input.first}};
}

void Transformer::ForwardBlock(const layers::Pass& pass, size_t layer, Activations& a,
                               Cache* cache) const {
  Block::Rows rows = RowsOf(a);
  if (cache != nullptr) {
    rows.attention.cache = &cache->layers[layer];
    rows.kept = &cache->kept[layer];
    if (cache->tokens == 0) *rows.kept = {};  // weights may have changed since the cache was made
  }
  blocks_[layer].Forward(pass, rows, a.inputs[layer % a.inputs.size()],
                         a.blocks[layer % a.blocks.size()], a.workspace, a.shape.training,
                         a.inputs[(layer + 1) % a.inputs.size()]);
}

int64_t Transformer::RowOf(const Context& context, int64_t position, int64_t length,
                           Activations& a) const {
  return a.waves ? a.waves->Cover(context, position, length) : learned_ ? position : 0;
}

void Transformer::Send(const Context& context, const Batch& batch, int64_t position,
                       Activations& a) const {
  Activations::Input& input = a.input;
  input.tokens = input.tokens_memory.Send(batch.tokens, context);
  input.first = RowOf(context, position, batch.length, a);
  input.sequences = {.batch = batch.batch, .length = batch.length, .mask = {}};
  if (batch.mask.empty()) return;
  const favor::Shape shape{batch.batch, batch.length};
  input.sequences.mask = ConstView(input.mask_memory.Send(batch.mask, context), DataType::kF32,
                                   shape, RowMajorStrides(shape), context.device());
}

// The row of the position travels behind the tokens, in one copy.
void Transformer::SendStep(const Context& context, std::span<const int32_t> tokens,
                           int64_t position, Activations& a) const {
  Activations::Input& input = a.input;
  input.step.assign(tokens.begin(), tokens.end());
  input.step.push_back(static_cast<int32_t>(RowOf(context, position, /*length=*/1, a)));
  input.tokens = input.tokens_memory.Send(input.step, context);
  input.first = layers::FirstRow(input.tokens + tokens.size());
  input.sequences = {.batch = std::ssize(tokens), .length = 1, .mask = {}};
}

void Transformer::ForwardEmbedding(const layers::Pass& pass, Activations& a) const {
  const Context& context = pass.context;
  const View x = a.inputs[0];
  const Activations::Input& input = a.input;
  const int64_t length = input.sequences.length;
  tokens_.Forward(context, {.indices = input.tokens}, /*add=*/false, x);
  if (learned_)
    learned_->Forward(context, {.first = input.first, .length = length}, /*add=*/true, x);
  if (config_.positions == Positions::kSinusoidal) a.waves->AddTo(context, input.first, length, x);
  layers::Drop(pass, kEmbeddingPlace, x, x);
}

ConstView Transformer::ForwardSent(const layers::Pass& pass, Activations& a, Cache* cache) const {
  ForwardEmbedding(pass, a);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) ForwardBlock(pass, layer, a, cache);
  const View last = a.inputs[blocks_.size() % a.inputs.size()];
  if (!norm_) return last;
  norm_->Forward(pass.context, last, a.statistics, a.hidden);
  return a.hidden;
}

ConstView Transformer::Forward(const layers::Pass& pass, const Batch& batch, Activations& a,
                               Cache* cache) const {
  Send(pass.context, batch, cache == nullptr ? 0 : cache->tokens, a);
  return ForwardSent(pass, a, cache);
}

ConstView Transformer::ForwardStep(const layers::Pass& pass, Activations& a, Cache& cache) const {
  return ForwardSent(pass, a, &cache);
}

ConstView Transformer::ForwardThrough(int64_t layers, const layers::Pass& pass, const Batch& batch,
                                      Activations& a) const {
  if (layers == std::ssize(blocks_)) return Forward(pass, batch, a);
  Send(pass.context, batch, /*position=*/0, a);
  ForwardEmbedding(pass, a);
  const auto count = static_cast<size_t>(layers);
  for (size_t layer = 0; layer < count; ++layer) ForwardBlock(pass, layer, a);
  return a.inputs[count % a.inputs.size()];
}

void Transformer::Backward(const layers::Pass& pass, Activations& a) {
  const Context& context = pass.context;
  if (norm_) {
    norm_->Backward(context, a.inputs[blocks_.size()], a.statistics, a.grad, a.grad,
                    /*add=*/false);
  }
  for (size_t layer = blocks_.size(); layer-- > static_cast<size_t>(frozen_);) {
    if (a.shape.recompute && layer + 1 < blocks_.size()) ForwardBlock(pass, layer, a);
    blocks_[layer].Backward(pass, RowsOf(a), a.inputs[layer], a.blocks[layer % a.blocks.size()],
                            a.workspace, a.grad);
  }
  if (frozen_ > 0) return;
  layers::Drop(pass, kEmbeddingPlace, a.grad, a.grad);
  tokens_.Backward(context, {.indices = a.input.tokens}, a.grad);
  if (learned_) learned_->Backward(context, {.length = a.shape.length}, a.grad);
}

std::string Transformer::FirstNotFinite(const Activations& a) const {
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (!AllFinite(HostCopy(a.inputs[i]).view()))
      return i == 0 ? "embedding" : fmt::format("layers.{}", i - 1);
  }
  return "";
}

}  // namespace favor::models
