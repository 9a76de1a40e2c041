// A learned projection of each head's queries or keys to fewer dims, for maps whose number of
// features grows with the square of the dim.
#ifndef FAVOR_LAYERS_HEAD_FEATURES_H_
#define FAVOR_LAYERS_HEAD_FEATURES_H_

#include <cstdint>
#include <string>

#include "favor/context.h"
#include "layers/parameter.h"

namespace favor::layers {

class HeadFeatures {
 public:
  // "<name>.weight" [heads, to, from].
  HeadFeatures(ParameterSet& parameters, const std::string& name, int64_t heads, int64_t from,
               int64_t to);

  // x [tokens, heads·from], y [tokens, heads·to], both with rows at any distance.
  void Forward(const Context& context, ConstView x, View y) const;
  // Adds to the gradient of the weights; grad_x is stored.
  void Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x);

 private:
  Parameter* weight_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_HEAD_FEATURES_H_
