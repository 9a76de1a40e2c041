#include <algorithm>
#include <cmath>

#include "core/access.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/train.h"
#include "kernels/copy.h"
#include "kernels/gradient_norm.h"
#include "models/checkpoint.h"
#include "models/config_fields.h"
#include "models/network.h"
#include "train/adamw.h"
#include "train/config_fields.h"
#include "train/run_data.h"
#include "train/schedule.h"

namespace favor {
namespace {

// What follows from the data.
RunConfig Complete(RunConfig config, const Dataset& data) {
  // Kept by name: files may be gone when the model is used.
  if (!config.data.starts_with("task:")) config.format.kind = KindOf(config.data, config.format);
  if (config.format.split_by == SplitRule::kAuto && data.SplitBy())
    config.format.split_by = *data.SplitBy();
  config.training.length = data.Length(config.training.length);
  const auto derive = [](const char* key, int64_t from_data, int64_t& in_config) {
    if (in_config != 0 && in_config != from_data) {
      Throw(ErrorCode::kInvalidOption, key, "given {}, but the data has {}", in_config, from_data);
    }
    in_config = from_data;
  };
  derive("vocab", data.vocab(), config.model.vocab);
  derive("classes", data.classes(), config.model.classes);
  config.model.causal = config.task == Task::kCausal;
  if (config.model.positions == Positions::kLearned && config.model.max_length == 0)
    config.model.max_length = config.training.length;
  if (config.model.positions == Positions::kLearned &&
      config.training.length > config.model.max_length) {
    Throw(ErrorCode::kInvalidOption, "length",
          "given {}, expected at most {}: the model has no more learned positions",
          config.training.length, config.model.max_length);
  }
  return config;
}

// A path that JSON cannot hold would not be found again.
void CheckName(const char* key, const std::string& data) {
  bool text = data.find('\0') == std::string::npos;
  try {
    text = text && !Json(data).dump().empty();
  } catch (const Json::exception&) {
    text = false;
  }
  if (!text)
    Throw(ErrorCode::kInvalidOption, key, "given '{}', expected a name in UTF-8", Printable(data));
}

// The same limits for configs that come from C++ as for those from files.
void CheckTraining(TrainConfig config) {
  FieldsFromJson("training", FieldsToJson(train::TrainFields(config)), train::TrainFields(config));
}

}  // namespace

struct Trainer::Impl {
  Impl(const RunConfig& run, const Context& run_context, std::shared_ptr<const Dataset> dataset)
      : data(std::move(dataset)),
        config(Complete(run, *data)),
        config_text(ToJson(config)),
        context(run_context),
        model(config.model, static_cast<uint64_t>(config.training.seed)),
        network(internal::Inside(model)),
        optimizer(network.parameters(), {.beta1 = config.training.beta1,
                                         .beta2 = config.training.beta2,
                                         .epsilon = config.training.epsilon,
                                         .weight_decay = config.training.weight_decay}),
        buffers(network.MakeBuffers(config.training.recompute)) {
    // What does not fit into memory is refused now, not after hours.
    network.parameters().ZeroGradients(context);
    network.Prepare({.batch = config.training.batch,
                     .length = config.training.length,
                     .training = true,
                     .recompute = config.training.recompute},
                    buffers);
  }

  models::CheckpointInfo Info(const std::string& note, const std::string& path) {
    const Json parsed = ParseJson(note);
    if (parsed.is_discarded())
      Throw(ErrorCode::kInvalidOption, "note", "given '{}', expected JSON", Printable(note));
    Json state = train::DataRecord::Of(*data, config.data, path).ToJson();
    state["step"] = step;
    state["tokens"] = tokens;
    state["note"] = parsed;
    // Where ω came from, if not from this run (StartFrom).
    const uint64_t seed = network.seed();
    if (seed != static_cast<uint64_t>(config.training.seed)) state["omega_seed"] = seed;
    if (first_redraw > 0) state["first_redraw"] = first_redraw;
    return {.config = config_text, .state = state.dump()};
  }

  [[noreturn]] void FailDiverged(const std::string& what) {
    const std::string where = internal::Inside(model).FirstNotFinite(buffers);
    Throw(ErrorCode::kInvalidData, "train",
          "training diverged at step {}: {}{}; try a lower learning rate, a longer warm-up or a "
          "smaller clip",
          step + 1, what, where.empty() ? "" : fmt::format(", first in {}", where));
  }

  std::shared_ptr<const Dataset> data;
  RunConfig config;
  std::string config_text;  // as it was written first
  const Context& context;
  Model model;
  models::Network& network;  // of the model
  train::AdamW optimizer;
  models::PassBuffers buffers;  // of evaluations too: those of the same shape need no memory more
  int64_t step = 0, tokens = 0;
  uint64_t first_redraw = 0;  // number of ω's draw at the first step
};

std::unique_ptr<Dataset> OpenData(const RunConfig& config) {
  if (config.data.empty())
    Throw(ErrorCode::kInvalidOption, "data",
          "given nothing, expected a file, a folder or task:NAME,key=value,…");
  return OpenData(config.data, {.task = config.task,
                                .seed = static_cast<uint64_t>(config.training.seed),
                                .format = config.format});
}

Trainer::Trainer(const RunConfig& config, const Context& context,
                 std::shared_ptr<const Dataset> data) {
  CheckTraining(config.training);
  CheckName("data", config.data);
  CheckName("tokenizer", config.format.tokenizer);
  CheckName("held_out", config.format.held_out);
  if (data == nullptr) data = OpenData(config);
  impl_ = std::make_unique<Impl>(config, context, std::move(data));
}
Trainer::~Trainer() = default;

const RunConfig& Trainer::config() const { return impl_->config; }
const Dataset& Trainer::data() const { return *impl_->data; }
Model& Trainer::model() { return impl_->model; }
const Model& Trainer::model() const { return impl_->model; }
int64_t Trainer::step() const { return impl_->step; }
int64_t Trainer::tokens() const { return impl_->tokens; }

void Trainer::StartFrom(const Model& model) {
  Impl& t = *impl_;
  if (t.step > 0)
    Throw(ErrorCode::kInvalidOption, "start", "given after {} steps, expected before the first",
          t.step);
  if (models::ToJson(model.config()) != models::ToJson(t.config.model))
    Throw(ErrorCode::kInvalidOption, "start",
          "given a model of another config, expected that of the run");
  kernels::Copy({.from = internal::Inside(model).parameters().values(),
                 .to = t.network.parameters().values()},
                t.context);
  t.network.parameters().Refresh(t.context);
  t.first_redraw = internal::Inside(model).redraw();
  t.network.Redraw(internal::Inside(model).seed(), t.first_redraw);
}

StepReport Trainer::Step() {
  Impl& t = *impl_;
  const TrainConfig& config = t.config.training;
  models::Network& network = t.network;
  const uint64_t redraw =
      t.first_redraw + static_cast<uint64_t>(config.redraw == 0 ? 0 : t.step / config.redraw);
  if (redraw != network.redraw()) network.Redraw(redraw);

  std::vector<Batch> batches;
  int64_t targets = 0, tokens = 0;
  for (int64_t i = 0; i < config.accumulate; ++i) {
    batches.push_back(t.data->TrainBatch(
        {.index = t.step * config.accumulate + i, .batch = config.batch, .length = config.length}));
    network.Check(batches.back());
    for (const int32_t target : batches.back().targets) targets += target != kNoTarget ? 1 : 0;
    tokens += static_cast<int64_t>(batches.back().tokens.size());
  }
  network.parameters().ZeroGradients(t.context);
  const double scale = 1 / static_cast<double>(std::max<int64_t>(targets, 1));
  Score score;
  for (int64_t i = 0; i < config.accumulate; ++i) {
    const auto index = static_cast<uint64_t>(t.step * config.accumulate + i);
    const layers::Pass pass{
        .context = t.context,
        .dropout = config.dropout,
        .stream = RandomStream(static_cast<uint64_t>(config.seed), "dropout").Child(index)};
    try {
      score += network.EvaluateAndBackward(batches[static_cast<size_t>(i)], pass, scale, t.buffers);
    } catch (const Error& error) {
      // Attention refuses numbers that are not finite before a loss can show them.
      if (error.code() != ErrorCode::kInvalidData) throw;
      t.FailDiverged(error.what());
    }
  }
  if (!std::isfinite(score.loss)) t.FailDiverged("the loss is not finite");
  Tally tally(t.context);
  kernels::AddGradientNorm({.gradients = network.parameters().gradients(),
                            .segments = network.parameters().segments(),
                            .tally = tally.At()},
                           t.context);
  const double norm = std::sqrt(tally.Read()[0].squared_norm);
  if (!std::isfinite(norm)) t.FailDiverged("the gradient is not finite");
  const double rate = train::LearningRate(config, t.step + 1);
  if (targets > 0) {  // a batch of few masked tokens may ask for none
    t.optimizer.Step(t.context, {.number = t.step + 1, .rate = rate, .clip = config.clip}, tally,
                     network.parameters());
  }
  ++t.step;
  t.tokens += tokens;
  return {.step = t.step,
          .tokens = tokens,
          .loss = score.MeanLoss(),
          .accuracy = score.Accuracy(),
          .learning_rate = rate,
          .gradient_norm = norm};
}

Score Trainer::Evaluate(Split split, int64_t batches) {
  const auto& [data, config] = std::tie(impl_->data, impl_->config.training);
  const int64_t all = data->Batches(split, config.batch, config.length);
  Score score;
  for (int64_t i = 0; i < (batches == 0 ? all : std::min(all, batches)); ++i) {
    score += impl_->network.Evaluate(
        data->EvalBatch(split, {.index = i, .batch = config.batch, .length = config.length}),
        {.context = impl_->context}, impl_->buffers);
  }
  if (score.count == 0)
    Throw(ErrorCode::kInvalidData, "evaluation", "{} batches of {} × {} tokens ask for nothing",
          batches == 0 ? all : std::min(all, batches), config.batch, config.length);
  return score;
}

void Trainer::Save(const std::string& path, const std::string& note) const {
  models::WriteCheckpoint(path, impl_->network, impl_->Info(note, path), impl_->optimizer.State());
}

void Trainer::SaveModel(const std::string& path) const {
  models::WriteCheckpoint(path, impl_->network, impl_->Info("{}", path));
}

std::string Trainer::Load(const std::string& path) {
  const models::Checkpoint checkpoint(path);
  RunConfig made_with;  // read, so that a file of another version of favor compares too
  ReadRunConfig(checkpoint.info().config, path, made_with);
  if (ToJson(made_with) != ToJson(impl_->config)) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "made with another config than that of the run");
  }
  const Json state = ParseJson(checkpoint.info().state);
  const auto number = [&](const char* key, int64_t most) {
    return state.is_object() && state.contains(key) && state[key].is_number_unsigned() &&
           state[key].get<uint64_t>() <= static_cast<uint64_t>(most);
  };
  if (!number("step", impl_->config.training.steps) || !number("tokens", INT64_MAX) ||
      !state.contains("note") || !state.contains("data"))
    Throw(ErrorCode::kInvalidData, Printable(path), "damaged checkpoint: no state of training");
  if (state["data"] != impl_->data->Fingerprint()) {
    Throw(ErrorCode::kInvalidData, Printable(impl_->config.data),
          "has changed since the run began, or is divided in another way now");
  }
  models::Network& network = impl_->network;
  const uint64_t seed = number("omega_seed", INT64_MAX)
                            ? state["omega_seed"].get<uint64_t>()
                            : static_cast<uint64_t>(impl_->config.training.seed);
  if (checkpoint.seed() != seed) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "damaged checkpoint: its seed is not that of its config");
  }
  // All that can be refused is refused before anything changes.
  impl_->optimizer.Check(checkpoint);
  checkpoint.ReadInto(network);
  network.parameters().Refresh(impl_->context);
  impl_->optimizer.Load(checkpoint);
  impl_->config_text = checkpoint.info().config;
  impl_->step = state["step"].get<int64_t>();
  impl_->tokens = state["tokens"].get<int64_t>();
  impl_->first_redraw =
      number("first_redraw", INT64_MAX) ? state["first_redraw"].get<uint64_t>() : 0;
  return state["note"].dump();
}

}  // namespace favor
