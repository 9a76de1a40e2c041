// A Transformer that names the class of a sequence, from the mean of the rows of tokens that exist.
#ifndef FAVOR_MODELS_CLASSIFIER_H_
#define FAVOR_MODELS_CLASSIFIER_H_

#include "layers/linear.h"
#include "models/network.h"

namespace favor::models {

class Classifier : public Network {
 public:
  Classifier(const ModelConfig& config, const NetworkOptions& options);

 protected:
  void PlanHead(layers::Arena& arena, const Transformer::Shape& shape) override;
  Score Forward(const Batch& batch, const layers::Pass& pass) override;
  Score ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale) override;
  Tensor ForwardLogits(const Batch& batch, const layers::Pass& pass) override;

 private:
  void PooledLogits(const Batch& batch, const layers::Pass& pass);

  layers::Linear output_;
  View pooled_, grad_pooled_, logits_;  // [batch, width or classes]
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_CLASSIFIER_H_
