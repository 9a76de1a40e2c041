// A model as training sees it: parameters, a score, gradients. Passes read it and write only to the
// buffers that they are given (and, for gradients, to those of its parameters): between two changes
// of its weights or its ω a network may be used from several threads, each with buffers and a
// Context of its own.
#ifndef FAVOR_MODELS_NETWORK_H_
#define FAVOR_MODELS_NETWORK_H_

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/tally.h"
#include "favor/data.h"
#include "favor/model.h"
#include "layers/parameter.h"
#include "layers/pass.h"
#include "models/pass_buffers.h"
#include "models/transformer.h"

namespace favor::models {

struct NetworkOptions {
  uint64_t seed = 0;                  // for first weights and ω
  DataType type = DataType::kF32;     // f64: the reference, for checks
  std::optional<DataType> pass_type;  // type of activations and of what passes read; none: `type`
  Device device;
  bool shapes_only = false;  // nothing is allocated: to count parameters and memory
  bool draw = true;          // draw first weights; false: zeros, to be read from a file
};

// A network there; throws unless passes of that type run there.
NetworkOptions OptionsAt(const Placement& placement, uint64_t seed);

// The score of the targets that a tally counted.
Score ScoreOf(const TallyEntry& entry);
// Copies to the host what a pass left on its device, 16 bits as f32.
Tensor OnHost(Tensor array, const Context& context);

class Network {
 public:
  // Makes a labeller if the config has classes, else a language model. Checks the config.
  static std::unique_ptr<Network> Make(const ModelConfig& config, const NetworkOptions& options);
  virtual ~Network() = default;

  const ModelConfig& config() const { return config_; }
  layers::ParameterSet& parameters() { return parameters_; }
  const layers::ParameterSet& parameters() const { return parameters_; }

  // Draws ω number `redraw` of every layer.
  void Redraw(uint64_t redraw);
  void Redraw(uint64_t seed, uint64_t redraw);  // with another seed from now on
  uint64_t redraw() const { return redraw_; }
  uint64_t seed() const { return options_.seed; }

  // Keeps the weights of the embedding and of the first `layers` blocks: training passes do not
  // compute their gradients, and the optimizer does not see them. 0: of none. Throws
  // kInvalidOption if there are fewer blocks.
  void Freeze(int64_t layers);

  // From now on the loss of each case is that times the weight of its class. Throws kInvalidOption
  // unless the network tells classes apart and each weight is above 0.
  virtual void WeighClasses(std::vector<float> weights);

  // `recompute`: see PassBuffers.
  PassBuffers MakeBuffers(bool recompute = false) const {
    return {parameters_.pass_type(), parameters_.device(), recompute};
  }

  // A tally for passes: one entry for the loss, one for attention of each layer, and `more` after
  // them.
  Tally MakeTally(const Context& context, int64_t more = 0) const {
    return Tally(context, TallyEntries() + more);
  }
  int64_t TallyEntries() const { return 1 + config_.layers; }
  // Reads what a pass left in its tally (and in its floats, if they are wanted); throws
  // kInvalidData if attention of some layer met unusable rows, naming the first such layer.
  std::vector<TallyEntry> Read(const Tally& tally, std::span<float> floats = {}) const;

  // Passes add what they find to their tally.
  void Evaluate(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const;
  // The score of each group of targets goes to an entry of its own, those of `more`: groups[i] is
  // the group of targets[i].
  void EvaluateGroups(const Batch& batch, std::span<const uint8_t> groups, const layers::Pass& pass,
                      PassBuffers& buffers) const;
  // −log p of each target, in the order of the targets, as f64 on the network's device; language
  // models only.
  Tensor Losses(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const;
  // The logits are on the network's device.
  Tensor Logits(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const;
  // Rows after the first `layers` blocks, [batch, length, width]; after all, those of the last
  // norm. On the network's device.
  Tensor Hidden(const Batch& batch, int64_t layers, const layers::Pass& pass,
                PassBuffers& buffers) const;
  // Adds grad_scale times the gradient of the summed loss to the gradients of parameters.
  void EvaluateAndBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                           PassBuffers& buffers);

  // MakeCache makes a cache with an empty prefix; Continue appends tokens to one and leaves the
  // logits of the next token, f32 [vocab], in the floats of the tally. Continue leaves `whole`
  // false: the caller reads the tally, adds the tokens to `tokens` and sets `whole`. Both throw
  // kInvalidOption if the model does not predict the next token.
  Cache MakeCache() const;
  void Continue(std::span<const int32_t> tokens, const layers::Pass& pass, Cache& cache,
                PassBuffers& buffers) const;
  // Continue for one token of each sequence, in two parts, as Transformer::SendStep says. Logits
  // are [sequences, vocab].
  void SendStep(std::span<const int32_t> tokens, const Context& context, Cache& cache,
                PassBuffers& buffers) const;
  void Step(const layers::Pass& pass, Cache& cache, PassBuffers& buffers) const;

  // Throws kInvalidOption unless passes may run in the context.
  void CheckContext(const Context& context) const;

  // Throws if a batch does not fit the model.
  void Check(const Batch& batch) const;
  // Allocates the memory of passes of this shape; passes do it themselves if this was not called.
  void Prepare(const Transformer::Shape& shape, PassBuffers& buffers) const;

  // Where the last training pass met the first number that is not finite: a layer, a parameter or
  // the gradient of one; empty if all are finite.
  std::string FirstNotFinite(const PassBuffers& buffers) const;

  int64_t BufferBytes(const Transformer::Shape& shape) const;  // size of the buffers
  int64_t TraceBytes(const Transformer::Shape& shape) const { return body_.TraceBytes(shape); }

 protected:
  Network(const ModelConfig& config, const NetworkOptions& options);

  // The output layer, which computes logits from rows.
  virtual PassBuffers::Output ReserveOutput(layers::Arena& arena,
                                            const Transformer::Shape& shape) const = 0;
  virtual void Forward(const Batch& batch, const layers::Pass& pass,
                       PassBuffers& buffers) const = 0;
  // Throws kInvalidOption unless overridden.
  virtual void ForwardGroups(const Batch& batch, std::span<const uint8_t> groups,
                             const layers::Pass& pass, PassBuffers& buffers) const;
  // Throws kInvalidOption unless overridden.
  virtual Tensor ForwardLosses(const Batch& batch, const layers::Pass& pass,
                               PassBuffers& buffers) const;
  virtual void ForwardBackward(const Batch& batch, const layers::Pass& pass, double grad_scale,
                               PassBuffers& buffers) = 0;
  virtual Tensor ForwardLogits(const Batch& batch, const layers::Pass& pass,
                               PassBuffers& buffers) const = 0;
  // Logits [sequences, vocab] from the last row of each sequence.
  virtual void ForwardLast(const Context& context, const ConstView& hidden, View logits) const;

  ModelConfig config_;
  NetworkOptions options_;
  layers::ParameterSet parameters_;
  Transformer body_;

 private:
  void Count(const Transformer::Shape& shape, layers::Arena& arena) const;
  void CheckPass(const Batch& batch, const Context& context, bool targets) const;
  // Checks a batch that follows a prefix.
  void PrepareToContinue(const Batch& batch, const Context& context, Cache& cache,
                         PassBuffers& buffers) const;
  View LogitsOf(const Tally& tally) const;  // [sequences, vocab], its floats
  void PrepareToEvaluate(const Batch& batch, const layers::Pass& pass, PassBuffers& buffers) const;

  uint64_t redraw_ = 0;
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_NETWORK_H_
