#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "favor/random.h"
#include "layers/dropout.h"
#include "models/first_values.h"

namespace favor::models {
namespace {

// Dropout of embeddings; blocks use the places below.
constexpr uint64_t kEmbeddingPlace = uint64_t{1} << 32;

std::vector<int32_t> PositionsOf(const Batch& batch, int64_t first) {
  std::vector<int32_t> positions(batch.tokens.size());
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<int32_t>(first + static_cast<int64_t>(i) % batch.length);
  return positions;
}

// Of tables of tokens and of learned positions.
layers::EmbeddingOptions EmbeddingOptionsOf(const ModelConfig& config) {
  const double root = std::sqrt(static_cast<double>(config.width));
  return {.deviation = EmbeddingDeviation(config), .scale = config.embedding_scale.value_or(root)};
}

}  // namespace

Memory Memory::Clone() const {
  Memory copy{.tokens = tokens, .layers = {}, .whole = whole};
  for (const layers::AttentionMemory& layer : layers) copy.layers.push_back(layer.Clone());
  return copy;
}

int64_t Memory::Bytes() const {
  int64_t bytes = 0;
  for (const layers::AttentionMemory& layer : layers) bytes += layer.Bytes();
  return bytes;
}

Memory Transformer::MakeMemory() const {
  Memory memory;
  for (const Block& block : blocks_) memory.layers.push_back(block.MakeMemory());
  return memory;
}

Transformer::Transformer(layers::ParameterSet& parameters, const ModelConfig& config)
    : config_(config),
      type_(parameters.type()),
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

void Transformer::Redraw(uint64_t seed, uint64_t redraw) {
  const RandomStream stream(seed, "omega of layers");
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    blocks_[layer].Redraw(stream.Bits(layer), redraw);
}

void Transformer::Plan(layers::Arena& arena, const Shape& shape, Activations& a) const {
  const int64_t tokens = shape.tokens(), width = config_.width;
  const bool keep = shape.training && !shape.recompute;
  a.shape = shape;
  a.inputs.clear();
  a.blocks.clear();
  const size_t inputs = shape.training ? blocks_.size() + 1 : 2;
  for (size_t i = 0; i < inputs; ++i) a.inputs.push_back(arena.Take({tokens, width}));
  for (size_t i = 0; i < (keep ? blocks_.size() : 1); ++i)
    a.blocks.push_back(blocks_[0].Plan(arena, tokens));
  a.workspace = blocks_[0].PlanWorkspace(arena, tokens, shape.training);
  if (norm_) {
    a.statistics = arena.Take({tokens, 2});
    a.hidden = arena.Take({tokens, width});
  }
  a.grad = shape.training ? arena.Take({tokens, width}) : View();
  if (a.waves) return;
  if (config_.positions == Positions::kSinusoidal) a.waves.emplace(width, type_);
  if (config_.positions == Positions::kRotary) a.waves.emplace(width / config_.heads, type_);
}

int64_t Transformer::RecordBytes(const Shape& shape) const {
  if (!shape.training) return 0;
  const int64_t kept = shape.recompute ? 1 : config_.layers;
  return kept * blocks_[0].RecordBytes(shape.batch, shape.length);
}

Block::Rows Transformer::RowsOf(const Batch& batch, const Activations& a) const {
  Block::Rows rows{.sequences = {.batch = batch.batch, .length = batch.length, .mask = {}}};
  if (!batch.mask.empty())
    rows.sequences.mask = ConstView(batch.mask.data(), {batch.batch, batch.length});
  if (config_.positions == Positions::kRotary) rows.rotary = &*a.waves;
  return rows;
}

void Transformer::ForwardBlock(const layers::Pass& pass, const Batch& batch, size_t layer,
                               Activations& a, Memory* memory) const {
  Block::Rows rows = RowsOf(batch, a);
  if (memory != nullptr) rows.memory = &memory->layers[layer];
  try {
    blocks_[layer].Forward(pass, rows, a.inputs[layer % a.inputs.size()],
                           a.blocks[layer % a.blocks.size()], a.workspace, a.shape.training,
                           a.inputs[(layer + 1) % a.inputs.size()]);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("layers.{}", layer), error.what());
  }
}

ConstView Transformer::Forward(const layers::Pass& pass, const Batch& batch, Activations& a,
                               Memory* memory) const {
  const int64_t first = memory == nullptr ? 0 : memory->tokens;
  const Context& context = pass.context;
  const View x = a.inputs[0];
  tokens_.Forward(context, batch.tokens, /*add=*/false, x);
  if (learned_) learned_->Forward(context, PositionsOf(batch, first), /*add=*/true, x);
  if (a.waves) a.waves->Cover(first, batch.length);
  if (config_.positions == Positions::kSinusoidal) a.waves->AddTo(context, batch.length, x);
  layers::Drop(pass, kEmbeddingPlace, x, x);
  if (memory != nullptr) memory->whole = false;
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    ForwardBlock(pass, batch, layer, a, memory);
  if (memory != nullptr) {
    memory->tokens += batch.length;
    memory->whole = true;
  }
  const View last = a.inputs[blocks_.size() % a.inputs.size()];
  if (!norm_) return last;
  norm_->Forward(context, last, a.statistics, a.hidden);
  return a.hidden;
}

void Transformer::Backward(const layers::Pass& pass, const Batch& batch, Activations& a) {
  const Context& context = pass.context;
  if (norm_) {
    norm_->Backward(context, a.inputs[blocks_.size()], a.statistics, a.grad, a.grad,
                    /*add=*/false);
  }
  for (size_t layer = blocks_.size(); layer-- > 0;) {
    if (a.shape.recompute && layer + 1 < blocks_.size()) ForwardBlock(pass, batch, layer, a);
    blocks_[layer].Backward(pass, RowsOf(batch, a), a.inputs[layer],
                            a.blocks[layer % a.blocks.size()], a.workspace, a.grad);
  }
  layers::Drop(pass, kEmbeddingPlace, a.grad, a.grad);
  tokens_.Backward(context, batch.tokens, a.grad);
  if (learned_) learned_->Backward(context, PositionsOf(batch, 0), a.grad);
}

std::string Transformer::FirstNotFinite(const Activations& a) const {
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (!AllFinite(a.inputs[i])) return i == 0 ? "embedding" : fmt::format("layers.{}", i - 1);
  }
  return "";
}

}  // namespace favor::models
