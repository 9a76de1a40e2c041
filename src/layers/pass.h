// One walk through a model: where it runs, what it finds out, and what chance it uses.
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
  double dropout = 0;                 // the share of elements that is set to 0; none in evaluation
  RandomStream stream{0, "dropout"};  // of this pass: a child for each place
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_PASS_H_
