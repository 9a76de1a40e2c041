// Model, the public interface of a network, and what is known about one without building it.
#include <algorithm>

#include "core/json.h"
#include "favor/model.h"
#include "favor/version.h"
#include "models/checkpoint.h"
#include "models/config_fields.h"
#include "models/network.h"

namespace favor {

Model::Model(const ModelConfig& config, uint64_t seed, const Placement& placement)
    : Model(models::Network::Make(config, models::OptionsAt(placement, seed))) {}
Model::Model(std::unique_ptr<models::Network> network)
    : impl_(std::move(network)), buffers_(std::make_unique<models::BufferPool>()) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Model Model::Load(const std::string& path, const Placement& placement) {
  return Model(models::OpenCheckpoint(path)->MakeNetwork(placement));
}

void Model::Save(const std::string& path) const {
  const Json config = {{"favor", FAVOR_VERSION}, {"model", models::ToJson(impl_->config())}};
  models::WriteCheckpoint(path, *impl_, {.config = config.dump(2) + "\n", .state = "{}"});
}

const ModelConfig& Model::config() const { return impl_->config(); }
Placement Model::placement() const {
  return {impl_->parameters().device(), impl_->parameters().pass_type()};
}
int64_t Model::ParameterCount() const { return impl_->parameters().Count(); }

std::vector<Model::NamedParameter> Model::Parameters() {
  std::vector<NamedParameter> named;
  for (const auto& parameter : impl_->parameters().all())
    named.push_back({parameter->name, parameter->value});
  return named;
}

Tensor Model::Logits(const Batch& batch, const Context& context) const {
  return buffers_->With([&] { return impl_->MakeBuffers(); },
                        [&](models::PassBuffers& buffers) {
                          Tally tally = impl_->MakeTally(context);
                          Tensor logits = models::OnHost(
                              impl_->Logits(batch, {.context = context, .tally = &tally}, buffers),
                              context);
                          impl_->Read(tally);
                          return logits;
                        });
}

Score Model::Evaluate(const Batch& batch, const Context& context) const {
  return buffers_->With([&] { return impl_->MakeBuffers(); },
                        [&](models::PassBuffers& buffers) {
                          Tally tally = impl_->MakeTally(context);
                          impl_->Evaluate(batch, {.context = context, .tally = &tally}, buffers);
                          return models::ScoreOf(impl_->Read(tally)[0]);
                        });
}

std::vector<Score> Model::EvaluateGroups(const Batch& batch, std::span<const uint8_t> groups,
                                         const Context& context) const {
  return buffers_->With(
      [&] { return impl_->MakeBuffers(); },
      [&](models::PassBuffers& buffers) {
        const int64_t count = groups.empty() ? 0 : *std::ranges::max_element(groups) + 1;
        Tally tally = impl_->MakeTally(context, count);
        impl_->EvaluateGroups(batch, groups, {.context = context, .tally = &tally}, buffers);
        const std::vector<TallyEntry> entries = impl_->Read(tally);
        std::vector<Score> scores;
        for (const TallyEntry& entry : std::span(entries).last(static_cast<size_t>(count)))
          scores.push_back(models::ScoreOf(entry));
        return scores;
      });
}

std::vector<double> Model::Losses(const Batch& batch, const Context& context) const {
  const Tensor losses = buffers_->With(
      [&] { return impl_->MakeBuffers(); },
      [&](models::PassBuffers& buffers) {
        Tally tally = impl_->MakeTally(context);
        Tensor found = models::OnHost(
            impl_->Losses(batch, {.context = context, .tally = &tally}, buffers), context);
        impl_->Read(tally);
        return found;
      });
  const double* next = losses.Data<double>();
  std::vector<double> of_each;
  of_each.reserve(batch.targets.size());
  for (const int32_t target : batch.targets) of_each.push_back(target == kNoTarget ? 0 : *next++);
  return of_each;
}

Tensor Model::Hidden(const Batch& batch, int64_t layer, const Context& context) const {
  return buffers_->With(
      [&] { return impl_->MakeBuffers(); },
      [&](models::PassBuffers& buffers) {
        Tally tally = impl_->MakeTally(context);
        Tensor hidden = models::OnHost(
            impl_->Hidden(batch, layer, {.context = context, .tally = &tally}, buffers), context);
        impl_->Read(tally);
        return hidden;
      });
}

ModelSummary Summarize(const ModelConfig& config) {
  const auto network = models::Network::Make(config, {.shapes_only = true});
  ModelSummary summary{.parameters = network->parameters().Count()};
  for (const auto& parameter : network->parameters().all()) {
    // "layers.0.attention.query.weight" belongs to "layers.0.attention", "norm.weight" to "norm".
    std::string part = parameter->name.substr(0, parameter->name.rfind('.'));
    if (part.starts_with("layers."))
      part.resize(std::min(part.size(), part.find('.', part.find('.', 7) + 1)));
    if (summary.parts.empty() || summary.parts.back().name != part)
      summary.parts.push_back({part, 0});
    summary.parts.back().parameters += parameter->shape.Elements();
  }
  return summary;
}

namespace {

// Products copy the weights twice (transposed, and in tiles), and up to 16 MiB of what gradients of
// weights sum over; every thread has tiles of its own.
int64_t WorkingBytes(const ModelConfig& config, const MemoryRequest& request) {
  constexpr int64_t kShared = int64_t{16} << 20, kThread = int64_t{3} << 20;
  const bool linearised = config.feed_forward == FeedForwardKind::kLinearised;
  const int64_t widest =
      std::max({config.ff, config.width, linearised ? config.linearised.columns : 0});
  const auto item = static_cast<int64_t>(sizeof(float));
  const int64_t weights = 2 * std::max(widest, config.vocab) * config.width * item;
  const int64_t rows = request.batch * request.length * widest * item;
  return weights + (request.training ? std::min(kShared, rows) : 0) + request.threads * kThread;
}

// On a GPU: what a product may take, and states of segments of linear attention with δ of each row,
// or parts of gradients of the embedding, whichever is more: one operation runs at a time.
int64_t GpuWorkingBytes(const ModelConfig& config, const MemoryRequest& request) {
  constexpr int64_t kProduct = int64_t{32} << 20, kStates = int64_t{48} << 20;
  const auto item = static_cast<int64_t>(sizeof(float));
  const int64_t rows = request.batch * request.length;
  const int64_t attention = kStates + (request.training ? rows * config.heads * item : 0),
                embedding = request.training ? rows * (config.width / 16 * item + 4 * item) : 0;
  return std::max({kProduct, attention, embedding});
}

}  // namespace

MemoryEstimate EstimateMemory(const ModelConfig& config, const MemoryRequest& request) {
  models::NetworkOptions options = models::OptionsAt(request.placement, /*seed=*/0);
  options.shapes_only = true;
  const auto network = models::Network::Make(config, options);
  const bool on_gpu = request.placement.device.type == DeviceType::kCuda;
  const int64_t count = network->parameters().Count(), all = count * ItemBytes(DataType::kF32);
  const models::Transformer::Shape shape{.batch = request.batch,
                                         .length = request.length,
                                         .training = request.training,
                                         .recompute = request.recompute};
  const DataType pass_type = request.placement.pass_type;
  const int64_t copy = pass_type == DataType::kF32 ? 0 : count * ItemBytes(pass_type);
  MemoryEstimate plan{
      .parameters = all + copy,
      .activations = network->BufferBytes(shape),
      .attention = network->TraceBytes(shape),
      .working = on_gpu ? GpuWorkingBytes(config, request) : WorkingBytes(config, request)};
  if (request.training) {
    plan.gradients = all;
    plan.optimizer = 2 * all;
  }
  return plan;
}

}  // namespace favor
