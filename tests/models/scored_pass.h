// Passes of a network with a tally of their own.
#ifndef FAVOR_TESTS_MODELS_SCORED_PASS_H_
#define FAVOR_TESTS_MODELS_SCORED_PASS_H_

#include "models/network.h"

namespace favor {

// Calls run(pass) with a tally, and reads the score from it.
template <class Run>
Score ScoreWith(const models::Network& network, const layers::Pass& pass, const Run& run) {
  Tally tally = network.MakeTally(pass.context);
  run({.context = pass.context, .tally = &tally, .dropout = pass.dropout, .stream = pass.stream});
  return models::ScoreOf(tally.Read()[0]);
}

inline Score Evaluated(const models::Network& network, const Batch& batch, const layers::Pass& pass,
                       models::PassBuffers& buffers) {
  return ScoreWith(network, pass,
                   [&](const layers::Pass& with) { network.Evaluate(batch, with, buffers); });
}

inline Score EvaluatedAndBackward(models::Network& network, const Batch& batch,
                                  const layers::Pass& pass, double grad_scale,
                                  models::PassBuffers& buffers) {
  return ScoreWith(network, pass, [&](const layers::Pass& with) {
    network.EvaluateAndBackward(batch, with, grad_scale, buffers);
  });
}

}  // namespace favor

#endif  // FAVOR_TESTS_MODELS_SCORED_PASS_H_
