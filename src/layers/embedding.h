// Rows of a table: of tokens, and of learned positions.
#ifndef FAVOR_LAYERS_EMBEDDING_H_
#define FAVOR_LAYERS_EMBEDDING_H_

#include <cstdint>
#include <span>
#include <string>

#include "favor/context.h"
#include "layers/parameter.h"

namespace favor::layers {

// Tables are drawn with deviation 1/√width and rows multiplied by √width, so that embeddings have
// variance 1 and a tied output starts with logits of variance 1.
class Embedding {
 public:
  // "<name>.weight" [rows, width].
  Embedding(ParameterSet& parameters, const std::string& name, int64_t rows, int64_t width);

  Parameter& weight() { return *weight_; }

  // y[i] = √width·table[indices[i]], or += with `add`.
  void Forward(const Context& context, std::span<const int32_t> indices, bool add, View y) const;
  void Backward(const Context& context, std::span<const int32_t> indices, ConstView grad_y);

 private:
  Parameter* weight_;
  double scale_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_EMBEDDING_H_
