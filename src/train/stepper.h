// Steps of training on a network: gradients of batches, then an update of the weights.
#ifndef FAVOR_TRAIN_STEPPER_H_
#define FAVOR_TRAIN_STEPPER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tally.h"
#include "favor/train.h"
#include "models/network.h"
#include "train/adamw.h"

namespace favor::train {

// Why a step cannot be made, from its tally; empty if it can. AdamW leaves the weights alone for
// the same reasons.
std::string Unusable(std::span<const TallyEntry> entries);

class Stepper {
 public:
  // All three must outlive it. Allocates the memory for batches of the config's shape, if it has
  // one: what does not fit is refused now, not after hours.
  Stepper(const TrainConfig& config, const Context& context, models::Network& network);

  // How far training has come; part of a checkpoint.
  struct State {
    int64_t step = 0, tokens = 0;
    uint64_t first_redraw = 0;  // number of ω's draw at the first step
  };
  const State& state() const { return state_; }
  void SetState(const State& state);  // drops a step that was begun
  AdamW& optimizer() { return optimizer_; }
  const AdamW& optimizer() const { return optimizer_; }

  // The same as those of Trainer.
  StepReport Step(std::span<const Batch> batches);
  int64_t CountTargets(std::span<const Batch> batches) const;
  void AddGradients(std::span<const Batch> batches, int64_t targets);
  View Gradients();
  StepReport Update();

  Score Evaluate(const Batch& batch);

 private:
  // A step that waits for Update.
  struct Begun {
    int64_t targets;  // targets of the whole step, maybe of several processes
    int64_t added = 0, batches = 0, tokens = 0;  // counts of this process
  };
  void Begin(int64_t targets);
  // Adds the gradients of batches that were checked and have `targets` targets.
  void Add(std::span<const Batch> batches, int64_t targets);
  RandomStream DropoutOf(int64_t batch) const;
  [[noreturn]] void FailDiverged(const std::string& what) const;

  const TrainConfig& config_;
  const Context& context_;
  models::Network& network_;
  AdamW optimizer_;
  models::PassBuffers buffers_;  // for evaluations too: those of the same shape need no more memory
  Tally tally_;                  // tally of the current step
  State state_;
  std::optional<Begun> begun_;
};

}  // namespace favor::train

#endif  // FAVOR_TRAIN_STEPPER_H_
