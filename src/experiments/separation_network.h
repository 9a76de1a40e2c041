// The network of the separation experiments with everything learned that is fixed there: queries,
// keys and values of one head of the library's attention layer, m hidden units ReLU(⟨c, y⟩ − τ) of
// each of its outputs c, their mean over tokens and two logits.
//
// It is not a Model: those read tokens of a vocabulary, not vectors, and their residual connections
// carry every token past the attention, so that hidden units of the tokens themselves would solve
// the task. Here attention is the only way from the tokens to the answer, as it is in the paper.
#ifndef FAVOR_EXPERIMENTS_SEPARATION_NETWORK_H_
#define FAVOR_EXPERIMENTS_SEPARATION_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tally.h"
#include "experiments/separation_task.h"
#include "favor/attention.h"
#include "favor/context.h"
#include "favor/train.h"
#include "layers/arena.h"
#include "layers/linear.h"
#include "layers/multi_head_attention.h"
#include "layers/parameter.h"

namespace favor::experiments {

struct NetworkShape {
  int64_t dim = 10, head_dim = 8, hidden = 16;
  AttentionOptions attention = {};
};

class SeparationNetwork {
 public:
  // First values and ω are pure functions of the seed.
  SeparationNetwork(const NetworkShape& shape, uint64_t seed, DataType type = DataType::kF32);

  layers::ParameterSet& parameters() { return parameters_; }

  // Entry 0 has the loss, entry 1 the rows of attention.
  static Tally MakeTally(const Context& context) { return Tally(context, 2); }

  // Adds the loss and the right answers of sequences of rows [batch·length, dim] to the tally, and
  // with `grad_scale` ≠ 0 so many times the gradients of the loss to those of the parameters.
  struct Batch {
    ConstView rows;
    std::span<const int32_t> labels;  // of the sequences
  };
  void Run(const Batch& batch, double grad_scale, const Tally& tally, const Context& context);

 private:
  struct Buffers {
    layers::MultiHeadAttention::Activations attention;
    layers::MultiHeadAttention::Workspace workspace;
    View outputs;        // [tokens, dim]: of the attention
    View inner, hidden;  // [tokens, hidden]: before and after ReLU
    View pooled;         // [batch, hidden]
    View logits;         // [batch, 2]
    View grad_outputs, grad_rows, grad_hidden, grad_pooled;
  };
  Buffers Reserve(int64_t batch, int64_t tokens);

  NetworkShape shape_;
  layers::ParameterSet parameters_;
  layers::MultiHeadAttention attention_;
  layers::Linear hidden_, output_;
  layers::Arena arena_;
};

// A network that is trained on examples of so many tokens, then of more, and so on: at every size
// it starts from what it has learned at the smaller ones. From scratch, most networks stay at
// chance for hundreds of steps at 1024 tokens, with exact attention too: what they could learn does
// not show.
struct TrainedRun {
  SeparationTask task;         // its tokens are those of the sizes
  std::vector<int64_t> sizes;  // numbers of tokens, ascending
  NetworkShape network;
  TrainConfig training;  // of each size: steps, batch, rates, clip; and the seed of all
  int64_t asked = 1000;  // fresh examples that the network is asked for at each size
};
struct TrainedResult {
  int64_t right = 0;    // of those that were asked
  int64_t skipped = 0;  // steps without an update, because something was not finite
};
// One result for each size; a pure function of the run, for any number of threads.
std::vector<TrainedResult> TrainAndTest(const TrainedRun& run, const Context& context);

// Calls use(task, examples) for all examples that networks of this run are asked for at a size.
template <class Use>
void ForEachAsked(const TrainedRun& run, int64_t tokens, const Use& use) {
  SeparationTask task = run.task;
  task.tokens = tokens;
  const RandomStream stream =
      RandomStream(static_cast<uint64_t>(run.training.seed), "separation answers")
          .Child(static_cast<uint64_t>(tokens));
  for (int64_t first = 0; first < run.asked; first += run.training.batch)
    use(task, DrawExamples(task, std::min(run.training.batch, run.asked - first),
                           stream.Child(static_cast<uint64_t>(first))));
}

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_NETWORK_H_
