// A Transformer that says something of a sequence, by the mean of the rows of its existing tokens,
// or of each of its tokens, by their rows: one of several classes, or a number.
#ifndef FAVOR_MODELS_LABELLER_H_
#define FAVOR_MODELS_LABELLER_H_

#include "layers/linear.h"
#include "models/network.h"

namespace favor::models {

class Labeller : public Network {
 public:
  Labeller(const ModelConfig& config, const NetworkOptions& options);

  void WeighClasses(std::vector<float> weights) override;

 protected:
  PassBuffers::Output ReserveOutput(layers::Arena& arena,
                                    const Transformer::Shape& shape) const override;
  void Forward(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const override;
  void ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                       PassBuffers& buffers) override;
  Tensor ForwardLogits(const Batch& batch, const layers::Pass& pass,
                       PassBuffers& buffers) const override;

 private:
  // The inputs and outputs of the output layer for the labels of a batch that are known.
  struct Rows {
    std::vector<int64_t> known;       // their numbers
    View rows, logits;                // [known, width], [known, classes]
    const int64_t* places = nullptr;  // per token: `known` in memory of the device
  };
  // Runs the network and the output layer.
  Rows Outputs(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const;
  // The mean row of each sequence.
  void Pool(const ConstView& hidden, const layers::Pass& pass, PassBuffers& buffers) const;
  // Adds the loss; if grad_scale ≠ 0, the logits are replaced by their gradient.
  void Loss(const Batch& batch, const layers::Pass& pass, double grad_scale, const Rows& rows,
            PassBuffers& buffers) const;

  layers::Linear output_;
  std::vector<float> class_weights_;  // empty: all are 1
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_LABELLER_H_
