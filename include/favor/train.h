// Training: a run is a config, and everything in it is a pure function of the config and the step,
// so that a run that was killed continues bit for bit.
//
//   favor::RunConfig run{.data = "task:copy,length=16", .task = favor::Task::kCausal};
//   run.model = favor::Preset("tiny");
//   favor::Trainer trainer(run, context);
//   while (trainer.step() < run.training.steps) trainer.Step();
#ifndef FAVOR_TRAIN_H_
#define FAVOR_TRAIN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/context.h"
#include "favor/data.h"
#include "favor/model.h"
#include "favor/names.h"

namespace favor {

// Schedule of the learning rate after a linear warm-up.
enum class Schedule : uint8_t { kCosine, kConstant };
template <>
inline constexpr auto kNamesOf<Schedule> = std::to_array<std::string_view>({"cosine", "constant"});

// How much the loss of a case counts: all the same, or in inverse proportion to how often its class
// occurs in the train split, so that all classes count the same (their mean over cases is 1).
enum class ClassWeights : uint8_t { kEqual, kBalanced };
template <>
inline constexpr auto kNamesOf<ClassWeights> = std::to_array<std::string_view>({"equal",
                                                                                "balanced"});

// Defaults are those of the Performers paper (A.1) for everything that it specifies.
struct TrainConfig {
  int64_t steps = 1000;
  int64_t batch = 8, length = 0;  // sequences per batch and tokens of each; 0: the data's default
  int64_t accumulate = 1;         // batches whose gradients are summed for one step
  double learning_rate = 1e-3;
  Schedule schedule = Schedule::kCosine;
  int64_t warmup = 100;     // steps
  double final_rate = 0.1;  // kCosine: the last learning rate, as a share of the full one
  double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, weight_decay = 0.1;
  double clip = 0.5;  // the largest norm of the gradient; 0: none
  double dropout = 0.1;
  int64_t redraw = 1000;   // steps between draws of ω; 0: one for the whole run
  bool recompute = false;  // activations of a layer are computed again for its gradients
  int64_t eval_every = 200, eval_batches = 16;  // steps; batches of the valid split, 0: all
  int64_t save_every = 200;                     // steps
  int64_t patience = 0;  // evaluations without a better loss until the run stops; 0: never
  int64_t seed = 0;
  // n > 0: the embedding, with it a tied output, and the first n layers keep their weights.
  int64_t freeze = 0;
  // Batches of the data that were read before this run, by the one that it starts from: the order
  // continues behind them.
  int64_t first_batch = 0;
  ClassWeights class_weights = ClassWeights::kEqual;  // in training and its evaluations
};

struct RunConfig {
  std::string data;  // a file, or "task:NAME,…"
  Task task = Task::kCausal;
  // A checkpoint or a run whose weights are the first ones; empty: they are drawn. Read by Train,
  // once, when the run begins; a Trainer has StartFrom.
  std::string init;
  DataFormat format;  // how the file is read
  ModelConfig model;
  TrainConfig training;
};

// Defaults are the Performers paper's. This sets what docs/training.md measured to learn more at
// the same cost, and what favor train begins with: ReLU features, ω drawn once, rotary positions, a
// convolution over four tokens and, where linear attention is causal, forgetting. Reads the task,
// the attention and heads_of of the config.
void UseRecommended(RunConfig& config);

// The data that a run learns from.
std::unique_ptr<Dataset> OpenData(const RunConfig& config);

// config.json of a run. Reading sets what the text holds and keeps the rest; it throws
// kInvalidOption for unknown keys (naming the nearest) and invalid values.
std::string ToJson(const RunConfig& config);
void ReadRunConfig(std::string_view json, const std::string& who, RunConfig& config);

struct StepReport {
  int64_t step = 0;    // steps done
  int64_t tokens = 0;  // read in this step
  double loss = 0;     // nats per target of the batches that this trainer read
  double accuracy = 0, learning_rate = 0, gradient_norm = 0;
};

// What a run has taken over from the model that it starts from.
struct StartReport {
  std::vector<std::string> drawn;   // parameters that the other does not have: new layers
  std::vector<std::string> unused;  // parameters of the other that this model does not have
  bool same_omega = false;          // ω is the other's too
};

class Trainer {
 public:
  // Completes the config: length, vocabulary, learned positions. `data`, if given, is used instead
  // of opening config.data. Throws if a given vocabulary is not the data's. If config.data is empty
  // and config.model.vocab is given, the trainer has no data: all batches come from outside.
  // The model lives on the device of the context, which must outlive the trainer; `pass_type` is
  // that of Placement.
  Trainer(const RunConfig& config, const Context& context,
          std::shared_ptr<const Dataset> data = nullptr, DataType pass_type = DataType::kF32);
  Trainer(const RunConfig&, Context&&, std::shared_ptr<const Dataset> = nullptr,
          DataType = DataType::kF32) = delete;
  ~Trainer();

  const RunConfig& config() const;
  const Dataset& data() const;  // throws kInvalidOption if it has none
  // Steps and Load change the weights in place.
  Model& model();
  const Model& model() const;
  int64_t step() const;
  int64_t tokens() const;  // read so far

  // Takes over the weights that another model has too, by their names, and its present ω, if maps
  // and heads are the same; later redraws follow from there. Only before the first step: throws
  // kInvalidOption after it, and if some weights have other shapes.
  // `outputs`: the weights of output layers too; otherwise these are drawn, as they are if shapes
  // differ.
  StartReport StartFrom(const Model& model, bool outputs = true);

  // One step of AdamW. The trainer does not stop by itself: a loop runs to config().training.steps,
  // where the schedule of the learning rate ends; steps beyond keep its last value. Throws
  // kInvalidData if loss or gradient is not finite, naming step and layer; the weights stay those
  // of the step before.
  StepReport Step();
  // The same with the caller's batches, which together make one step: any number, of any shapes.
  // Throws kInvalidData if one does not fit the model; nothing has changed then.
  StepReport Step(std::span<const Batch> batches);

  // The same in three calls, for several processes that learn together: each takes its share of the
  // batches, and both the numbers of targets and the gradients are summed over all of them.
  //
  //   const int64_t targets = SumOverProcesses(trainer.CountTargets(share));
  //   trainer.AddGradients(share, targets);
  //   SumOverProcesses(trainer.Gradients());
  //   trainer.Update();
  int64_t CountTargets(std::span<const Batch> batches) const;
  // Adds the gradients of the loss per target, of which the whole step has `targets`. The first
  // call after Update begins a step from gradients of 0; more calls may follow, with the same
  // `targets`. Throws if a batch does not fit, or if `targets` are fewer than were added; nothing
  // has changed then. Any other error ends the step: gradients are lost, weights are not.
  void AddGradients(std::span<const Batch> batches, int64_t targets);
  // The gradients of all parameters, as one array of f32 [elements] with zeros between them: the
  // same elements in every process. May be written between AddGradients and Update. On a GPU it is
  // memory of the device: call the context's Wait before reading it, and end what writes it before
  // Update.
  View Gradients();
  // Clips, applies AdamW and ends the step. Throws like Step.
  StepReport Update();

  // Evaluates without dropout, with the present ω, on at most `batches` batches; 0: all.
  Score Evaluate(Split split, int64_t batches);

  // Writes weights, optimizer and the position in the run. `note`, JSON, is stored and returned by
  // Load. Throws kInvalidData rather than write weights that are not finite.
  void Save(const std::string& path, const std::string& note = "{}") const;
  // Throws kInvalidData if the file is damaged, belongs to another run or has no optimizer;
  // weights, optimizer and step are then what they were.
  std::string Load(const std::string& path);
  // Writes no optimizer: what Model::Save writes, plus the run's config and data.
  void SaveModel(const std::string& path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TrainOptions {
  std::string out;      // the folder of the run
  bool resume = false;  // continue the run that is there
  std::string data;     // where the data of the resumed run is now; empty: as the run says
  bool quiet = false;   // no progress on stderr
  // As in Placement; not part of the run, which may continue in another type or on another device.
  DataType pass_type = DataType::kF32;
  // Writes a checkpoint at least this often, in addition to those of save_every; 0: never by time.
  // Not part of the run: whatever its value, the run ends with the same weights.
  double save_minutes = 10;
  // Called before each step, for the first time when the folder holds a checkpoint. If it returns
  // true, the run saves a checkpoint and returns; it can be resumed.
  std::function<bool()> stop;
};

// How a run with an `init` began; known only where it did.
struct Start {
  StartReport report;
  std::optional<Score> own;  // score of the other model as it was, if it has the same task
  Score valid;               // score of its weights in this run's model, before the first step
};

struct TrainResult {
  Task task = Task::kCausal;
  std::optional<Start> start;
  int64_t steps = 0, tokens = 0;
  std::string unit;            // what a token stands for: byte, residue
  std::optional<double> loss;  // loss of the last step; none if all steps had been done before
  double seconds = 0;
  bool stopped_early = false;  // because of `patience`
  bool interrupted = false;    // by TrainOptions::stop, with steps left
  std::optional<Score> valid;  // score of the last evaluation
  double best_loss = 0;        // best loss of an evaluation, nats
  int64_t best_step = 0;
};

// A model with what it was trained on.
struct TrainedModel {
  RunConfig config;
  Model model;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::string path;  // path of the checkpoint
  int64_t step = 0;  // steps that it was trained for
  // Fingerprint, content and shape of the data, as Dataset gives them; empty if unknown.
  std::string fingerprint, content, shape;
  std::string data_from_here;        // from the folder of the checkpoint to the data; may be empty
  std::optional<int32_t> start;      // the token that begins every sequence (Prompt)
  std::vector<int32_t> unseen;       // tokens that were never a target in training: not to be drawn
  std::vector<std::string> classes;  // what classes stand for; empty: their numbers
  LabelScale scale;                  // of the numbers that it predicts
};
// Reads a checkpoint or the folder of a run (its best checkpoint if there is one, else the last).
// Throws kInvalidData if the vocabulary does not fit the model.
TrainedModel LoadTrained(const std::string& path, const Placement& placement = {});

// The data that a model was trained on, wherever it is now: at `hint` if one is given, else where
// the run says, seen from here or from its folder. Its fingerprint tells whether it is still the
// same; `hint` may be any data of the same vocabulary. Throws kInvalidData for data that the model
// cannot read.
std::shared_ptr<const Dataset> OpenDataOf(const TrainedModel& trained,
                                          const std::string& hint = "");

// A run with its folder: config.json, log.jsonl, last.safetensors and best.safetensors. Throws if
// the folder already holds a run and `resume` is not set, or if it holds another run.
TrainResult Train(const RunConfig& config, const TrainOptions& options, const Context& context);

// The config of a run's folder, if it holds one.
std::optional<RunConfig> FindRun(const std::string& folder);

}  // namespace favor

#endif  // FAVOR_TRAIN_H_
