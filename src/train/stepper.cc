#include "train/stepper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error_text.h"
#include "kernels/gradient_norm.h"
#include "train/schedule.h"

namespace favor::train {
namespace {

constexpr const char* kInfiniteLoss = "the loss is not finite";

}  // namespace

std::string Unusable(std::span<const TallyEntry> entries) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].unusable == 0) continue;
    return fmt::format("{}: {} rows are not finite or out of range",
                       i == 0 ? "loss" : fmt::format("layers.{}", i - 1), entries[i].unusable);
  }
  if (!std::isfinite(entries[0].loss)) return kInfiniteLoss;
  return std::isfinite(entries[0].squared_norm) ? "" : "the gradient is not finite";
}

Stepper::Stepper(const TrainConfig& config, const Context& context, models::Network& network)
    : config_(config),
      context_(context),
      network_(network),
      optimizer_(network.parameters(), {.beta1 = config.beta1,
                                        .beta2 = config.beta2,
                                        .epsilon = config.epsilon,
                                        .weight_decay = config.weight_decay}),
      buffers_(network.MakeBuffers(config.recompute)),
      tally_(network.MakeTally(context)) {
  network_.parameters().ZeroGradients(context);
  if (config.length == 0) return;  // batches come from outside, whatever their shape
  network_.Prepare({.batch = config.batch,
                    .length = config.length,
                    .training = true,
                    .recompute = config.recompute},
                   buffers_);
}

void Stepper::SetState(const State& state) {
  state_ = state;
  begun_.reset();
}

StepReport Stepper::Step(std::span<const Batch> batches) {
  if (batches.empty())
    Throw(ErrorCode::kInvalidOption, "step", "given no batches, expected at least one");
  if (begun_)
    Throw(ErrorCode::kInvalidOption, "step", "there are gradients of a step, expected its Update");
  const int64_t targets = CountTargets(batches);
  Begin(targets);
  Add(batches, targets);
  return Update();
}

int64_t Stepper::CountTargets(std::span<const Batch> batches) const {
  int64_t targets = 0;
  for (const Batch& batch : batches) {
    network_.Check(batch);
    targets += favor::CountTargets(batch);
  }
  return targets;
}

void Stepper::AddGradients(std::span<const Batch> batches, int64_t targets) {
  const int64_t more = CountTargets(batches), added = more + (begun_ ? begun_->added : 0);
  if (begun_ && begun_->targets != targets) {
    Throw(ErrorCode::kInvalidOption, "targets", "given {}, expected {} as at first in this step",
          targets, begun_->targets);
  }
  if (targets < added) {
    Throw(ErrorCode::kInvalidOption, "targets", "given {}, expected at least the {} of the batches",
          targets, added);
  }
  if (!begun_) Begin(targets);
  Add(batches, more);
}

void Stepper::Begin(int64_t targets) {
  const uint64_t redraw =
      state_.first_redraw +
      static_cast<uint64_t>(config_.redraw == 0 ? 0 : state_.step / config_.redraw);
  if (redraw != network_.redraw()) network_.Redraw(redraw);
  network_.parameters().BeginGradients(context_);
  tally_.Clear();
  begun_ = {.targets = targets};
}

void Stepper::Add(std::span<const Batch> batches, int64_t targets) {
  const double scale = 1 / static_cast<double>(std::max<int64_t>(begun_->targets, 1));
  try {
    for (const Batch& batch : batches) {
      const layers::Pass pass{.context = context_,
                              .tally = &tally_,
                              .dropout = config_.dropout,
                              .stream = DropoutOf(begun_->batches++)};
      network_.EvaluateAndBackward(batch, pass, scale, buffers_);
      begun_->tokens += std::ssize(batch.tokens);
    }
    network_.parameters().SettleGradients(context_);
    begun_->added += targets;
  } catch (...) {
    begun_.reset();
    throw;
  }
}

// The dropout of a batch is a pure function of the step and the number of the batch in it.
RandomStream Stepper::DropoutOf(int64_t batch) const {
  const auto seed = static_cast<uint64_t>(config_.seed);
  if (batch < config_.accumulate) {
    return RandomStream(seed, "dropout")
        .Child(static_cast<uint64_t>(state_.step * config_.accumulate + batch));
  }
  return RandomStream(seed, "dropout of more batches")
      .Child(static_cast<uint64_t>(state_.step))
      .Child(static_cast<uint64_t>(batch));
}

View Stepper::Gradients() {
  if (!begun_)
    Throw(ErrorCode::kInvalidOption, "gradients", "there are none, expected AddGradients first");
  return network_.parameters().gradients();
}

StepReport Stepper::Update() {
  if (!begun_)
    Throw(ErrorCode::kInvalidOption, "update",
          "there are no gradients, expected AddGradients first");
  const Begun step = *std::exchange(begun_, std::nullopt);
  layers::ParameterSet& parameters = network_.parameters();
  kernels::AddGradientNorm({.gradients = parameters.gradients(),
                            .segments = parameters.segments(),
                            .tally = tally_.At()},
                           context_);
  const double rate = LearningRate(config_, state_.step + 1);
  if (step.targets > 0) {  // batches of few masked tokens may have none
    optimizer_.Step(context_, {.number = state_.step + 1, .rate = rate, .clip = config_.clip},
                    tally_, parameters);
  }
  const std::vector<TallyEntry> entries = tally_.Read();
  if (const std::string why = Unusable(entries); !why.empty()) FailDiverged(why);
  ++state_.step;
  state_.tokens += step.tokens;
  const Score score = models::ScoreOf(entries[0]);
  return {.step = state_.step,
          .tokens = step.tokens,
          .loss = score.MeanLoss(),
          .accuracy = score.Accuracy(),
          .learning_rate = rate,
          .gradient_norm = std::sqrt(entries[0].squared_norm)};
}

void Stepper::FailDiverged(const std::string& what) const {
  const std::string where = network_.FirstNotFinite(buffers_);
  Throw(ErrorCode::kInvalidData, "train",
        "training diverged at step {}: {}{}; try a lower learning rate, a longer warm-up or a "
        "smaller clip",
        state_.step + 1, what, where.empty() ? "" : fmt::format(", first in {}", where));
}

Score Stepper::Evaluate(const Batch& batch) {
  Tally tally = network_.MakeTally(context_);
  network_.Evaluate(batch, {.context = context_, .tally = &tally}, buffers_);
  return models::ScoreOf(network_.Read(tally)[0]);
}

}  // namespace favor::train
