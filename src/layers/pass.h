// One pass through a model: where it runs, where it counts what it finds, and its random numbers.
#ifndef FAVOR_LAYERS_PASS_H_
#define FAVOR_LAYERS_PASS_H_

#include "core/tally.h"
#include "favor/context.h"
#include "favor/random.h"

namespace favor::layers {

struct Pass {
  const Context& context;
  // Entry 0: the loss and the norm of gradients; entry 1 + i: attention of layer i.
  Tally* tally;
  double dropout = 0;                 // share of elements that are set to 0; 0 in evaluation
  RandomStream stream{0, "dropout"};  // for this pass: one child per place in the model
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_PASS_H_
