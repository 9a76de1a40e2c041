// A Transformer that classifies a sequence by the mean of the rows of its existing tokens.
#ifndef FAVOR_MODELS_CLASSIFIER_H_
#define FAVOR_MODELS_CLASSIFIER_H_

#include "layers/linear.h"
#include "models/network.h"

namespace favor::models {

class Classifier : public Network {
 public:
  Classifier(const ModelConfig& config, const NetworkOptions& options);

 protected:
  PassBuffers::Output ReserveOutput(layers::Arena& arena,
                                    const Transformer::Shape& shape) const override;
  void Forward(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const override;
  void ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                       PassBuffers& buffers) override;
  Tensor ForwardLogits(const Batch& batch, const layers::Pass& pass,
                       PassBuffers& buffers) const override;

 private:
  // Fills the rows and logits of the output layer: means of rows, [batch, width], and [batch,
  // classes].
  void PooledLogits(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const;

  // If grad_scale ≠ 0, the logits are replaced by their gradient.
  void Loss(const Batch& batch, const layers::Pass& pass, double grad_scale,
            PassBuffers& buffers) const;

  layers::Linear output_;
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_CLASSIFIER_H_
