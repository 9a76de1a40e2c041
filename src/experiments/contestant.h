// A contestant of the separation experiments: any attention of the library in place of softmax.
#ifndef FAVOR_EXPERIMENTS_CONTESTANT_H_
#define FAVOR_EXPERIMENTS_CONTESTANT_H_

#include <cstdint>
#include <string>

#include "experiments/separation.h"
#include "favor/attention.h"

namespace favor::experiments {

struct Contestant {
  std::string name;
  AttentionOptions attention;  // its scale is 1, and its features are drawn anew for each redraw
  double gain = 1;             // queries times this, keys divided by it: the logits stay
  bool on_span = false;        // queries and keys by OnSpanOfKeys; not with X of ones

  bool IsLinear() const;                                        // it has features
  bool IsDrawn() const;                                         // they are random
  int64_t Width(const TokenData& data, Between between) const;  // columns of its features, or 0
};

// Outputs of every query, by Attend. If X is of ones, the logit is a product of two numbers, the
// sums of a query and of a key: attention then sees these, of dim 1.
Rows OutputsBy(const Contestant& contestant, const TokenData& data, Between between,
               uint64_t redraw, const Context& context);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_CONTESTANT_H_
