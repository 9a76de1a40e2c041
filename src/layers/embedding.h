// Looking up rows of a table: of tokens, or of learned positions.
#ifndef FAVOR_LAYERS_EMBEDDING_H_
#define FAVOR_LAYERS_EMBEDDING_H_

#include <cstdint>
#include <string>

#include "favor/context.h"
#include "kernels/embedding.h"
#include "layers/parameter.h"

namespace favor::layers {

struct EmbeddingOptions {
  double deviation;  // standard deviation of the first values
  double scale;      // factor of rows when they are read: one table may serve as embedding and as
                     // output weights
};

class Embedding {
 public:
  // "<name>.weight" [rows, width].
  Embedding(ParameterSet& parameters, const std::string& name, const Shape& shape,
            const EmbeddingOptions& options);

  Parameter& weight() { return *weight_; }

  // y = scale·table[rows], or += with `add`.
  void Forward(const Context& context, const kernels::TableRows& rows, bool add, View y) const;
  void Backward(const Context& context, const kernels::TableRows& rows, ConstView grad_y);

 private:
  Parameter* weight_;
  double scale_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_EMBEDDING_H_
