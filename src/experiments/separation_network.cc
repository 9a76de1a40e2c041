#include "experiments/separation_network.h"

#include "kernels/activation.h"
#include "kernels/cross_entropy.h"
#include "kernels/gradient_norm.h"
#include "kernels/mean_pool.h"
#include "train/adamw.h"
#include "train/schedule.h"
#include "train/stepper.h"

namespace favor::experiments {
namespace {

constexpr int64_t kClasses = 2;

layers::AttentionShape OneHead(const NetworkShape& shape) {
  layers::AttentionShape attention{.width = shape.dim};
  attention.Add({.heads = 1,
                 .kv_heads = 1,
                 .dim = shape.head_dim,
                 .value_dim = shape.head_dim,
                 .options = shape.attention});
  return attention;
}

}  // namespace

SeparationNetwork::SeparationNetwork(const NetworkShape& shape, uint64_t seed, DataType type)
    : shape_(shape),
      parameters_({.seed = seed, .type = type}),
      attention_(parameters_, "attention", OneHead(shape), /*output_gain=*/1),
      hidden_(parameters_, "hidden", shape.dim, shape.hidden),
      output_(parameters_, "output", shape.hidden, kClasses),
      arena_(type) {
  parameters_.Allocate();
  attention_.Redraw(seed, 0);
}

SeparationNetwork::Buffers SeparationNetwork::Reserve(int64_t batch, int64_t tokens) {
  const auto take = [&] {
    return Buffers{.attention = attention_.Reserve(arena_, tokens),
                   .workspace = attention_.ReserveWorkspace(arena_, tokens, /*training=*/true),
                   .outputs = arena_.Take({tokens, shape_.dim}),
                   .inner = arena_.Take({tokens, shape_.hidden}),
                   .hidden = arena_.Take({tokens, shape_.hidden}),
                   .pooled = arena_.Take({batch, shape_.hidden}),
                   .logits = arena_.Take({batch, kClasses}),
                   .grad_outputs = arena_.Take({tokens, shape_.dim}),
                   .grad_rows = arena_.Take({tokens, shape_.dim}),
                   .grad_hidden = arena_.Take({tokens, shape_.hidden}),
                   .grad_pooled = arena_.Take({batch, shape_.hidden})};
  };
  arena_.Count();
  take();
  arena_.Provide();
  return take();
}

void SeparationNetwork::Run(const Batch& batch, double grad_scale, const Tally& tally,
                            const Context& context) {
  const int64_t count = std::ssize(batch.labels), tokens = batch.rows.size(0);
  const kernels::Sequences sequences{.batch = count, .length = tokens / count, .mask = {}};
  const layers::MultiHeadAttention::Rows rows{.sequences = sequences};
  const bool training = grad_scale != 0;
  Buffers b = Reserve(count, tokens);

  attention_.Forward(context, rows, batch.rows, b.attention, training, tally.At(1), {}, b.outputs);
  hidden_.Forward(
      context, b.outputs, b.inner,
      kernels::ActivationArguments{.f = Activation::kRelu, .x = b.inner, .y = b.hidden});
  kernels::MeanPool({.x = b.hidden, .sequences = sequences, .y = b.pooled}, context);
  output_.Forward(context, b.pooled, b.logits);
  kernels::CrossEntropy({.targets = batch.labels.data(),
                         .grad_scale = grad_scale,
                         .logits = b.logits,
                         .tally = tally.At(0)},
                        context);
  if (!training) return;

  output_.Backward(context, b.pooled, b.logits, b.grad_pooled);
  kernels::MeanPoolBackward(
      {.grad_y = b.grad_pooled, .sequences = sequences, .grad_x = b.grad_hidden}, context);
  kernels::ActivateBackward(
      {.f = Activation::kRelu, .x = b.inner, .grad_y = b.grad_hidden, .grad_x = b.grad_hidden},
      context);
  hidden_.Backward(context, b.outputs, b.grad_hidden, b.grad_outputs);
  attention_.Backward(context, rows, batch.rows, b.attention, b.workspace, b.grad_outputs,
                      tally.At(1), b.grad_rows);
}

namespace {

// Trains the network on examples of `task`; returns the steps without an update.
int64_t Train(const SeparationTask& task, const TrainConfig& training, const Context& context,
              SeparationNetwork& network) {
  layers::ParameterSet& parameters = network.parameters();
  parameters.ZeroGradients(context);
  train::AdamW optimizer(parameters, {.beta1 = training.beta1,
                                      .beta2 = training.beta2,
                                      .epsilon = training.epsilon,
                                      .weight_decay = training.weight_decay});
  const RandomStream stream =
      RandomStream(static_cast<uint64_t>(training.seed), "separation lessons")
          .Child(static_cast<uint64_t>(task.tokens));
  Tally tally = SeparationNetwork::MakeTally(context);
  int64_t skipped = 0;
  for (int64_t step = 1; step <= training.steps; ++step) {
    const SeparationExamples examples =
        DrawExamples(task, training.batch, stream.Child(static_cast<uint64_t>(step)));
    tally.Clear();
    parameters.BeginGradients(context);
    network.Run({examples.rows, examples.labels}, 1 / static_cast<double>(training.batch), tally,
                context);
    parameters.SettleGradients(context);
    kernels::AddGradientNorm({.gradients = parameters.gradients(),
                              .segments = parameters.segments(),
                              .tally = tally.At()},
                             context);
    optimizer.Step(
        context,
        {.number = step, .rate = train::LearningRate(training, step), .clip = training.clip}, tally,
        parameters);
    skipped += train::Unusable(tally.Read()).empty() ? 0 : 1;
  }
  return skipped;
}

}  // namespace

std::vector<TrainedResult> TrainAndTest(const TrainedRun& run, const Context& context) {
  SeparationNetwork network(run.network, static_cast<uint64_t>(run.training.seed));
  std::vector<TrainedResult> results;
  for (const int64_t tokens : run.sizes) {
    SeparationTask task = run.task;
    task.tokens = tokens;
    const int64_t skipped = Train(task, run.training, context, network);
    const Tally tally = SeparationNetwork::MakeTally(context);
    ForEachAsked(run, tokens, [&](const SeparationTask&, const SeparationExamples& examples) {
      network.Run({examples.rows, examples.labels}, 0, tally, context);
    });
    results.push_back({.right = tally.Read()[0].correct, .skipped = skipped});
  }
  return results;
}

}  // namespace favor::experiments
