// A Transformer that predicts tokens: the next one (causal) or masked ones.
#ifndef FAVOR_MODELS_LANGUAGE_MODEL_H_
#define FAVOR_MODELS_LANGUAGE_MODEL_H_

#include <span>
#include <vector>

#include "models/network.h"

namespace favor::models {

class LanguageModel : public Network {
 public:
  LanguageModel(const ModelConfig& config, const NetworkOptions& options);

 protected:
  void PlanHead(layers::Arena& arena, const Transformer::Shape& shape) override;
  Score Forward(const Batch& batch, const layers::Pass& pass) override;
  Score ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale) override;
  Tensor ForwardLogits(const Batch& batch, const layers::Pass& pass) override;
  Tensor ForwardLast(const Batch& batch, const layers::Pass& pass, Memory& memory) override;

 private:
  // Rows whose logits exist at the same time.
  int64_t ChunkRows() const;
  // The loss of rows that have a target; with grad_scale ≠ 0 also the gradients of the output
  // weights and, in activations_.grad, of `hidden`.
  Score Loss(const Context& context, ConstView hidden, std::span<const int32_t> targets,
             double grad_scale);

  layers::Parameter* output_;  // [vocab, width]; the embedding's where they are tied
  View logits_, rows_, grad_rows_;
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_LANGUAGE_MODEL_H_
