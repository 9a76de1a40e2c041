#include <algorithm>
#include <functional>
#include <numeric>

#include "core/access.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/train.h"
#include "models/checkpoint.h"
#include "models/network.h"
#include "train/batches_ahead.h"
#include "train/config_fields.h"
#include "train/memory_advice.h"
#include "train/run_data.h"
#include "train/start.h"
#include "train/stepper.h"

namespace favor {
namespace {

// Fills in what follows from the data, if there is any.
RunConfig Complete(RunConfig config, const Dataset* data) {
  if (data != nullptr) {
    // The kind is stored by its name: files may be gone when the model is used.
    if (!config.data.starts_with("task:")) config.format.kind = KindOf(config.data, config.format);
    if (config.format.split_by == SplitRule::kAuto && data->SplitBy())
      config.format.split_by = *data->SplitBy();
    config.training.length = data->Length(config.training.length);
    const auto derive = [](const char* key, int64_t from_data, int64_t& in_config) {
      if (in_config != 0 && in_config != from_data) {
        Throw(ErrorCode::kInvalidOption, key, "given {}, but the data has {}", in_config,
              from_data);
      }
      in_config = from_data;
    };
    derive("vocab", data->vocab(), config.model.vocab);
    derive("classes", data->classes(), config.model.classes);
  } else if (HasLabels(config.task) != (config.model.classes > 0)) {
    Throw(ErrorCode::kInvalidOption, "classes", "given {} with the task '{}', expected {}",
          config.model.classes, Name(config.task), HasLabels(config.task) ? "their number" : "0");
  }
  config.model.causal = train::ReadsLikeADecoder(config);
  config.model.numbers = config.task == Task::kRegress;
  if (data != nullptr)
    config.model.per_token = HasLabels(config.task) && config.format.label_of == LabelOf::kToken;
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

// Refuses paths that JSON cannot hold: they would not be found again.
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

// n/(classes·n_c) for the n_c of n cases that are of class c; 1 for those that do not occur.
std::vector<float> BalancedWeights(const Dataset* data) {
  const std::vector<int64_t> counts =
      data == nullptr ? std::vector<int64_t>() : data->ClassCounts();
  if (counts.empty()) {
    Throw(ErrorCode::kInvalidOption, "class_weights",
          "given balanced, expected a table of classes");
  }
  const auto cases = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const auto classes =
      static_cast<double>(std::ranges::count_if(counts, [](int64_t count) { return count > 0; }));
  std::vector<float> weights;
  for (const int64_t count : counts)
    weights.push_back(
        count == 0 ? 1.0f : static_cast<float>(cases / (classes * static_cast<double>(count))));
  return weights;
}

// Calls work(); if it runs out of memory, the error says what a step on batches of this shape takes
// and what to change.
template <class Work>
auto WithAdvice(const RunConfig& run, const Context& context, DataType pass_type, int64_t batch,
                int64_t length, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || batch == 0 || length == 0) throw;
    const std::string advice =
        train::MemoryAdvice(run.model, {.batch = batch,
                                        .length = length,
                                        .recompute = run.training.recompute,
                                        .threads = context.threads(),
                                        .placement = {context.device(), pass_type}});
    if (advice.empty()) throw;
    throw Error(ErrorCode::kOutOfMemory, error.what(), advice);
  }
}

// Checks the same limits for configs from C++ as for those from files.
void CheckTraining(TrainConfig config) {
  FieldsFromJson("training", FieldsToJson(train::TrainFields(config)), train::TrainFields(config));
}

}  // namespace

struct Trainer::Impl {
  // A complete config.
  Impl(const RunConfig& run, const Context& run_context, std::shared_ptr<const Dataset> dataset,
       DataType type)
      : data(std::move(dataset)),
        config(run),
        config_text(ToJson(config)),
        context(run_context),
        pass_type(type),
        model(config.model, static_cast<uint64_t>(config.training.seed),
              {.device = run_context.device(), .pass_type = pass_type}),
        network(internal::Inside(model)),
        batches_ahead(data, config.training, run_context.device().type == DeviceType::kCuda),
        stepper(config.training, context, network) {
    network.Freeze(config.training.freeze);
    if (config.training.class_weights == ClassWeights::kBalanced)
      network.WeighClasses(BalancedWeights(data.get()));
  }

  template <class Work>
  auto Advised(std::span<const Batch> batches, const Work& work) const {
    const auto tokens = [](const Batch& batch) { return batch.batch * batch.length; };
    const auto largest = std::ranges::max_element(batches, std::less(), tokens);
    const bool any = largest != batches.end();
    return WithAdvice(config, context, pass_type, any ? largest->batch : 0,
                      any ? largest->length : 0, work);
  }

  const Dataset& Data() const {
    if (data == nullptr)
      Throw(ErrorCode::kInvalidOption, "data",
            "this trainer has none, expected batches to be given");
    return *data;
  }

  models::CheckpointInfo Info(const std::string& note, const std::string& path) {
    const Json parsed = ParseJson(note);
    if (parsed.is_discarded())
      Throw(ErrorCode::kInvalidOption, "note", "given '{}', expected JSON", Printable(note));
    const auto record = data == nullptr ? train::DataDescription()
                                        : train::DataDescription::Of(*data, config.data, path);
    Json state = record.ToJson();
    state["step"] = stepper.state().step;
    state["tokens"] = stepper.state().tokens;
    state["note"] = parsed;
    // Where ω came from, if not from this run (StartFrom).
    const uint64_t seed = network.seed(), first_redraw = stepper.state().first_redraw;
    if (seed != static_cast<uint64_t>(config.training.seed)) state["omega_seed"] = seed;
    if (first_redraw > 0) state["first_redraw"] = first_redraw;
    return {.config = config_text, .state = state.dump()};
  }

  std::shared_ptr<const Dataset> data;  // null: batches come from outside
  RunConfig config;
  std::string config_text;  // the config as it was first written
  const Context& context;
  DataType pass_type;
  Model model;
  models::Network& network;  // the model's network
  train::BatchesAhead batches_ahead;
  train::Stepper stepper;
};

std::unique_ptr<Dataset> OpenData(const RunConfig& config) {
  train::CheckDataGiven(config);
  return OpenData(config.data, train::OptionsOf(config));
}

Trainer::Trainer(const RunConfig& config, const Context& context,
                 std::shared_ptr<const Dataset> data, DataType pass_type) {
  CheckTraining(config.training);
  CheckName("data", config.data);
  for (const train::FormatFile& file : train::kFormatFiles)
    CheckName(file.key, config.format.*file.path);
  CheckName("init", config.init);
  if (data == nullptr && (!config.data.empty() || config.model.vocab == 0)) data = OpenData(config);
  const RunConfig complete = Complete(config, data.get());
  impl_ = WithAdvice(
      complete, context, pass_type, complete.training.batch, complete.training.length,
      [&] { return std::make_unique<Impl>(complete, context, std::move(data), pass_type); });
}
Trainer::~Trainer() = default;

const RunConfig& Trainer::config() const { return impl_->config; }
const Dataset& Trainer::data() const { return impl_->Data(); }
Model& Trainer::model() { return impl_->model; }
const Model& Trainer::model() const { return impl_->model; }
int64_t Trainer::step() const { return impl_->stepper.state().step; }
int64_t Trainer::tokens() const { return impl_->stepper.state().tokens; }

StartReport Trainer::StartFrom(const Model& model, bool outputs) {
  Impl& t = *impl_;
  if (step() > 0)
    Throw(ErrorCode::kInvalidOption, "start", "given after {} steps, expected before the first",
          step());
  StartReport report = train::CarryOver(internal::Inside(model), t.network, outputs, t.context);
  if (report.same_omega) t.stepper.SetState({.first_redraw = t.network.redraw()});
  return report;
}

StepReport Trainer::Step() {
  impl_->Data();  // there must be some
  return Step(impl_->batches_ahead.Of(step()));
}

StepReport Trainer::Step(std::span<const Batch> batches) {
  return impl_->Advised(batches, [&] { return impl_->stepper.Step(batches); });
}
int64_t Trainer::CountTargets(std::span<const Batch> batches) const {
  return impl_->stepper.CountTargets(batches);
}
void Trainer::AddGradients(std::span<const Batch> batches, int64_t targets) {
  impl_->Advised(batches, [&] { impl_->stepper.AddGradients(batches, targets); });
}
View Trainer::Gradients() { return impl_->stepper.Gradients(); }
StepReport Trainer::Update() { return impl_->stepper.Update(); }

Score Trainer::Evaluate(Split split, int64_t batches) {
  const Dataset& data = impl_->Data();
  const TrainConfig& config = impl_->config.training;
  const int64_t all = data.Batches(split, config.batch, config.length);
  Score score;
  for (int64_t i = 0; i < (batches == 0 ? all : std::min(all, batches)); ++i) {
    score += impl_->stepper.Evaluate(
        data.EvalBatch(split, {.index = i, .batch = config.batch, .length = config.length}));
  }
  if (score.count == 0)
    Throw(ErrorCode::kInvalidData, "evaluation", "{} batches of {} × {} tokens have no targets",
          batches == 0 ? all : std::min(all, batches), config.batch, config.length);
  return score;
}

void Trainer::Save(const std::string& path, const std::string& note) const {
  models::WriteCheckpoint(path, impl_->network, impl_->Info(note, path),
                          impl_->stepper.optimizer().State());
}

void Trainer::SaveModel(const std::string& path) const {
  models::WriteCheckpoint(path, impl_->network, impl_->Info("{}", path));
}

std::string Trainer::Load(const std::string& path) {
  const models::Checkpoint checkpoint(path);
  RunConfig made_with;  // parsed, so that files of other versions of favor can be compared
  ReadRunConfig(checkpoint.info().config, path, made_with);
  if (ToJson(made_with) != ToJson(impl_->config)) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "made with a config other than that of the run");
  }
  const Json state = ParseJson(checkpoint.info().state);
  const auto number = [&](const char* key, uint64_t most) {
    return state.is_object() && state.contains(key) && state[key].is_number_unsigned() &&
           state[key].get<uint64_t>() <= most;
  };
  if (!number("step", static_cast<uint64_t>(impl_->config.training.steps)) ||
      !number("tokens", INT64_MAX) || !state.contains("note") || !state.contains("data"))
    Throw(ErrorCode::kInvalidData, Printable(path), "damaged checkpoint: no state of training");
  if (state["data"] != (impl_->data == nullptr ? "" : impl_->data->Fingerprint())) {
    Throw(ErrorCode::kInvalidData, Printable(impl_->config.data),
          "has changed since the run began, or is divided in another way now");
  }
  models::Network& network = impl_->network;
  const uint64_t seed = number("omega_seed", UINT64_MAX)
                            ? state["omega_seed"].get<uint64_t>()
                            : static_cast<uint64_t>(impl_->config.training.seed);
  if (checkpoint.seed() != seed) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "damaged checkpoint: its seed is not that of its config");
  }
  // Everything that can be refused is refused before anything changes.
  impl_->stepper.optimizer().Check(checkpoint);
  checkpoint.ReadInto(network);
  network.parameters().Refresh(impl_->context);
  impl_->stepper.optimizer().Load(checkpoint);
  impl_->config_text = checkpoint.info().config;
  impl_->stepper.SetState({.step = state["step"].get<int64_t>(),
                           .tokens = state["tokens"].get<int64_t>(),
                           .first_redraw = number("first_redraw", UINT64_MAX)
                                               ? state["first_redraw"].get<uint64_t>()
                                               : 0});
  return state["note"].dump();
}

}  // namespace favor
