// favor inspect model: what a model is made of and the memory that it takes.

#include <fmt/format.h>

#include <algorithm>

#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/parts.h"
#include "cli/run_config_options.h"
#include "core/access.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/model.h"
#include "models/checkpoint.h"
#include "models/feed_forward.h"
#include "models/heads.h"
#include "models/network.h"
#include "reports/memory_table.h"
#include "reports/table.h"

namespace favor::cli {
namespace {

constexpr int64_t kDefaultLength = 2048;

struct Arguments {
  RunConfigOptions options;
  std::string model;
  int64_t batch = 1, length = 0;
  ContextArguments run;
  bool recompute = false, json = false;
};

std::string Megabytes(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}

Json ToJson(const MemoryEstimate& plan) {
  return {{"parameters", plan.parameters}, {"gradients", plan.gradients},
          {"optimizer", plan.optimizer},   {"activations", plan.activations},
          {"attention", plan.attention},   {"working", plan.working},
          {"total", plan.Total()}};
}

// By layer and head; null: the head does not forget.
Json ToJson(const models::HeadMemories& memories) {
  Json layers = Json::array();
  for (const auto& layer : memories) {
    layers.push_back(Json::array());
    for (const std::optional<double>& head : layer)
      layers.back().push_back(head ? Json(*head) : Json());
  }
  return layers;
}

models::HeadMemories MemoriesOf(const Arguments& a, const ModelConfig& config) {
  if (a.model.empty()) return models::MemoriesOf(config, nullptr);
  const Model model = Model::Load(a.model);
  return models::MemoriesOf(config, &internal::Inside(model).parameters());
}

ModelConfig ConfigOf(const Arguments& a) {
  if (!a.model.empty()) {
    if (a.options.Given()) {
      Throw(ErrorCode::kInvalidOption, "inspect model",
            "given --model and options of a model, expected one or the other");
    }
    return models::OpenCheckpoint(a.model)->model();
  }
  ModelConfig config = a.options.Fresh().model;
  if (config.vocab == 0) config.vocab = kByteVocab;
  if (config.positions == Positions::kLearned && config.max_length == 0)
    config.max_length = a.length == 0 ? kDefaultLength : a.length;
  return config;
}

void Run(Arguments& a) {
  const ModelConfig config = ConfigOf(a);
  const bool learned = config.positions == Positions::kLearned;
  if (a.length == 0)
    a.length = learned ? std::min(kDefaultLength, config.max_length) : kDefaultLength;
  if (learned && a.length > config.max_length) {
    Throw(ErrorCode::kInvalidOption, "inspect model: --length",
          "given {}, expected at most {}: the model has no more learned positions", a.length,
          config.max_length);
  }
  const Context context({.threads = static_cast<int>(a.run.threads)});
  const ModelSummary summary = Summarize(config);
  const auto plan = [&](bool training) {
    return EstimateMemory(config, {.batch = a.batch,
                                   .length = a.length,
                                   .training = training,
                                   .recompute = a.recompute,
                                   .threads = context.threads(),
                                   .placement = a.run.ModelPlacement()});
  };
  const MemoryEstimate training = plan(true), evaluation = plan(false);
  const models::HeadMemories memories = MemoriesOf(a, config);
  if (a.json) {
    Json parts = Json::array();
    for (const ModelSummary::Part& part : summary.parts)
      parts.push_back({{"name", part.name}, {"parameters", part.parameters}});
    PrintJson(Json{{"parameters", summary.parameters},
                   {"parts", parts},
                   {"batch", a.batch},
                   {"length", a.length},
                   {"head_memories", ToJson(memories)},
                   {"training_bytes", ToJson(training)},
                   {"evaluation_bytes", ToJson(evaluation)}});
    return;
  }
  reports::Table parts{.title = "Parameters", .columns = {"part", "parameters"}};
  for (const ModelSummary::Part& part : summary.parts)
    parts.rows.push_back({part.name, std::to_string(part.parameters)});
  parts.rows.push_back({"all", std::to_string(summary.parameters)});
  const bool linearised = config.feed_forward == FeedForwardKind::kLinearised;
  fmt::print("{}: {}{}, {} layers of width {}, {} heads\n\n{}\n",
             config.causal ? "decoder" : "encoder", models::AttentionText(config),
             linearised ? ", " + models::FeedForwardText(config) : "", config.layers, config.width,
             config.heads, parts.ToText());
  if (const reports::Table heads = reports::MemoryTable(memories); !heads.rows.empty())
    fmt::print("{}\n", heads.ToText());
  reports::Table memory{
      .title = fmt::format("Memory in MB, batch {} × length {}{}", a.batch, a.length,
                           a.run.device == Device{}
                               ? ""
                               : fmt::format(", {} on {}", Name(a.run.ModelPlacement().pass_type),
                                             Name(a.run.device))),
      .columns = {"", "training", "evaluation"}};
  const auto row = [&](const char* name, int64_t MemoryEstimate::*part) {
    memory.rows.push_back({name, Megabytes(training.*part), Megabytes(evaluation.*part)});
  };
  row("parameters", &MemoryEstimate::parameters);
  row("gradients", &MemoryEstimate::gradients);
  row("optimizer", &MemoryEstimate::optimizer);
  row("activations", &MemoryEstimate::activations);
  row("attention", &MemoryEstimate::attention);
  row("working", &MemoryEstimate::working);
  memory.rows.push_back({"all", Megabytes(training.Total()), Megabytes(evaluation.Total())});
  fmt::print("{}\n", memory.ToText());
}

void Declare(Options& options, Arguments& a) {
  options.Path("--model", "PATH", a.model,
               "A checkpoint or the folder of a run, instead of a preset and options");
  options.Integer("--batch", {1, 1 << 20}, a.batch, "Sequences at a time");
  options.Integer("--length", {1, int64_t{1} << 24}, a.length, "Tokens of a sequence")
      .Default("2048");
  options.Flag("--recompute", a.recompute, "Training computes activations again for gradients");
  a.run.AddThreads(options);
  a.run.AddPlacement(options, DataType::kBF16);
  options.Flag("--json", a.json, "Print as JSON");
  a.options.AddModel(options);
}

}  // namespace

Command InspectModelPart() {
  return {
      .name = "model",
      .summary = "Layers, parameters, and memory for a batch of sequences",
      .example =
          "favor inspect model --preset regular --length 8192\n  favor inspect model --model run",
      .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
