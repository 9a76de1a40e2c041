// A Transformer that predicts tokens: the next token (causal) or masked tokens.
#ifndef FAVOR_MODELS_LANGUAGE_MODEL_H_
#define FAVOR_MODELS_LANGUAGE_MODEL_H_

#include <cstdint>
#include <vector>

#include "models/network.h"

namespace favor::models {

class LanguageModel : public Network {
 public:
  LanguageModel(const ModelConfig& config, const NetworkOptions& options);

 protected:
  PassBuffers::Output ReserveOutput(layers::Arena& arena,
                                    const Transformer::Shape& shape) const override;
  void Forward(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const override;
  void ForwardGroups(const Batch& batch, std::span<const uint8_t> groups, const layers::Pass& pass,
                     PassBuffers& buffers) const override;
  void ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                       PassBuffers& buffers) override;
  Tensor ForwardLosses(const Batch& batch, const layers::Pass& pass,
                       PassBuffers& buffers) const override;
  Tensor ForwardLogits(const Batch& batch, const layers::Pass& pass,
                       PassBuffers& buffers) const override;
  void ForwardLast(const Context& context, const ConstView& hidden, View logits) const override;

 private:
  // The rows of a batch that have a target, in memory of the device.
  struct Wanted {
    std::vector<int64_t> host_places;
    std::vector<int32_t> host_targets;
    bool is_every_row = false;  // places are then 0, 1, 2, …
    const int64_t* places = nullptr;
    const int32_t* targets = nullptr;
  };
  // Queues the copy to a GPU. Before the forward pass, so that the host does not wait for its end.
  static Wanted SendTargets(std::vector<int32_t> targets, const Context& context,
                            PassBuffers& buffers);

  // Number of rows whose logits exist at the same time.
  int64_t ChunkRows() const;
  // Options of the loss of tokens that have a target, computed from the last rows, `hidden`.
  struct LossOptions {
    double grad_scale = 0;  // ≠ 0: also the gradients of the output weights and, in
                            // activations.grad, of the last rows
    TallyEntry* tally;
    double* losses = nullptr;  // of each target, in memory of the device; may be null
  };
  void TargetLoss(const ConstView& hidden, const Wanted& wanted, const Context& context,
                  const LossOptions& options, const PassBuffers& buffers) const;

  layers::Parameter* output_;  // [vocab, width]; the embedding's if they are tied
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_LANGUAGE_MODEL_H_
