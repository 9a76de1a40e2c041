// Transformers and Performers: decoders that predict the next token, encoders that fill in masked
// tokens or name a class.
//
//   favor::ModelConfig config = favor::Preset("tiny");
//   config.vocab = favor::kByteVocab;
//   config.positions = favor::Positions::kRotary;   // learned ones need a max_length
//   favor::Model model(config, /*seed=*/1);
//   favor::Tensor logits = model.Logits(batch, favor::Context());   // [batch, length, vocab]
#ifndef FAVOR_MODEL_H_
#define FAVOR_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/activation.h"
#include "favor/attention.h"
#include "favor/context.h"
#include "favor/data.h"
#include "favor/features.h"
#include "favor/names.h"
#include "favor/polynomial.h"
#include "favor/score.h"
#include "favor/tensor.h"

namespace favor {

// How a token knows its place.
enum class Positions : uint8_t { kLearned, kSinusoidal, kRotary, kNone };
template <>
inline constexpr auto kNamesOf<Positions> =
    std::to_array<std::string_view>({"learned", "sinusoidal", "rotary", "none"});

// Where a sublayer f is normalised.
enum class Norm : uint8_t {
  kPre,   // x + f(norm(x))
  kPost,  // norm(x + f(x))
};
template <>
inline constexpr auto kNamesOf<Norm> = std::to_array<std::string_view>({"pre", "post"});

// Whether heads of linear attention forget, in decoders (AttentionOptions::log_decay).
enum class Decay : uint8_t {
  kNone,
  kFixed,  // each head at its own learned rate
  kToken,  // each head at a rate that every token sets
};
template <>
inline constexpr auto kNamesOf<Decay> = std::to_array<std::string_view>({"none", "fixed", "token"});

enum class FeedForwardKind : uint8_t {
  kDense,       // W₂f(W₁x)
  kLinearised,  // the same weights, with f(w·x) as a product of features (favor/linearised.h)
};
template <>
inline constexpr auto kNamesOf<FeedForwardKind> = std::to_array<std::string_view>({"dense",
                                                                                   "linearised"});

// How f becomes a polynomial and the polynomial a product of features; the sketches are drawn from
// the model's seed, once.
struct LinearisedLayers {
  int64_t degree = 2;
  int64_t columns = 512;  // random columns of all degrees above 1
  double range = 3;       // f is replaced on [−range, range]
  Fit fit = Fit::kLeastSquares;
  bool exact_quadratic = false;  // degree 2 by all products of two inputs: no random columns
  bool own_curves = false;       // every unit has coefficients of its own, which are learned

  friend bool operator==(const LinearisedLayers&, const LinearisedLayers&) = default;
};

struct ModelConfig {
  static FeatureOptions Features(int64_t features) {
    FeatureOptions options;
    options.features = features;
    return options;
  }

  bool causal = true;      // decoder; false: encoder
  int64_t vocab = 0;       // number of tokens
  int64_t classes = 0;     // number of classes that are told apart; 0: logits for tokens
  bool per_token = false;  // classes of each token; otherwise of the whole sequence
  bool numbers = false;    // a number is predicted instead of a class; classes is 1
  int64_t width = 128;     // length of a token's row
  int64_t layers = 2;
  int64_t heads = 4;     // heads of queries; a divisor of width
  int64_t kv_heads = 0;  // heads of keys and values; a divisor of heads; 0: as many
  int64_t ff = 512;      // width inside feed-forward layers
  Positions positions = Positions::kLearned;
  int64_t max_length = 0;  // number of learned positions; 0: the length of training
  // Factor of the rows of tokens and of learned positions when they are read; default √width.
  std::optional<double> embedding_scale;
  Norm norm = Norm::kPre;
  double norm_epsilon = 1e-5;                 // ε of (x − mean)/√(variance + ε)
  Activation activation = Activation::kGelu;  // inside feed-forward layers
  FeedForwardKind feed_forward = FeedForwardKind::kDense;
  LinearisedLayers linearised;       // linearised feed-forward layers only
  bool tied = true;                  // output weights are those of the embedding
  std::string attention = "linear";  // a name of AttentionNames()
  KindOptions kind_options;          // of that kind, such as {{"window", 64}}
  int64_t convolution = 0;  // taps of short convolutions of queries, keys and values; 0: none
  FeatureOptions features = Features(64);  // linear attention only
  Decay decay = Decay::kNone;              // linear attention only
  // Queries and keys of linear attention are projected to this dim per head, by learned matrices;
  // 0: they are not.
  int64_t feature_dim = 0;
  // Heads of several kinds in each layer: NAME:HEADS[:OPTION]… for each kind, separated by commas,
  // as in "relu:4:decay=token,taylor:4:dim=16:decay=none". The name is a map of linear attention or
  // another kind of attention; options are features=N, degree=N, dim=N (feature_dim) and
  // decay=KIND. Empty: all heads are alike.
  std::string heads_of;
  int64_t exact_every = 0;  // n > 0: layers n, 2n, … attend exactly, the first being layer 1
};

// The presets: tiny, and those of the paper: small, regular, protein. What depends on the data,
// such as the vocabulary, is not set.
ModelConfig Preset(std::string_view name);
std::span<const std::string_view> PresetNames();

// Throws kInvalidOption if no such model can be built.
void CheckConfig(const ModelConfig& config);

// Bytes that training or evaluation with batches of one shape takes.
struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // buffers of all layers, sized once
  int64_t attention = 0;    // what attention keeps for gradients
  int64_t working = 0;      // scratch of kernels: copies of weights and tiles; an estimate
  int64_t Total() const {
    return parameters + gradients + optimizer + activations + attention + working;
  }
};

// Where a model lives, and the type that its passes read and write. Weights, their gradients, means
// and sums are f32 wherever it lives; bf16 passes run on a GPU.
struct Placement {
  Device device;
  DataType pass_type = DataType::kF32;
};

namespace models {
class BufferPool;
class Network;
}  // namespace models

// The const functions of one model, and Decoders on it, may be used from several threads at once,
// each with a Context of its own. What changes weights (Parameters(), a Trainer's Step and Load)
// must not run at the same time. Contexts are on the device of the model; results are on the CPU.
class Model {
 public:
  // Weights are a pure function of the seed.
  Model(const ModelConfig& config, uint64_t seed, const Placement& placement = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Reads a checkpoint or the folder of a run (its best checkpoint if there is one, else the last).
  static Model Load(const std::string& path, const Placement& placement = {});
  // Writes a checkpoint of the model alone, atomically, for Load to read: config, weights and what
  // ω is drawn from. It holds neither data nor vocabulary (LoadTrained needs a Trainer's
  // checkpoint). Throws kInvalidData rather than write weights that are not finite.
  void Save(const std::string& path) const;

  const ModelConfig& config() const;
  Placement placement() const;
  int64_t ParameterCount() const;
  struct NamedParameter {
    std::string name;
    View value;
  };
  // The learned parameters, on the device of the model; passes in bf16 see changes only after a
  // step of a Trainer. ω of linear attention is not among them: to continue from another model's
  // weights with the ω that they were learned with, use Trainer::StartFrom.
  std::vector<NamedParameter> Parameters();

  // [batch, length, vocab], or [batch, classes], of each token [batch, length, classes]. Throws
  // kInvalidData for tokens outside the vocabulary and kInvalidOption for sequences longer than
  // learned positions.
  //
  // The model keeps the memory of these passes for the next calls: one set of buffers for each call
  // that runs at the same time.
  Tensor Logits(const Batch& batch, const Context& context) const;
  Score Evaluate(const Batch& batch, const Context& context) const;
  // The same in one pass for several groups of targets: groups[i] < 256 is the group of targets[i].
  // Returns one score for each group up to the largest; language models only.
  std::vector<Score> EvaluateGroups(const Batch& batch, std::span<const uint8_t> groups,
                                    const Context& context) const;
  // What the model makes of each token, [batch, length, width]: its embedding (layer 0), the rows
  // after a layer (1, 2, …), and after the last one those that logits are computed from. Throws
  // kInvalidOption for layers that the model does not have.
  Tensor Hidden(const Batch& batch, int64_t layer, const Context& context) const;
  // −log p of each target in nats, [batch, length], 0 where nothing is predicted; language models
  // only.
  std::vector<double> Losses(const Batch& batch, const Context& context) const;

 private:
  friend struct internal::Access;
  explicit Model(std::unique_ptr<models::Network> network);

  std::unique_ptr<models::Network> impl_;
  std::unique_ptr<models::BufferPool> buffers_;
};

// Number of parameters of a model, known without building it.
struct ModelSummary {
  int64_t parameters = 0;
  struct Part {
    std::string name;  // "embedding", "layers.0.attention", …, "norm"
    int64_t parameters;
  };
  std::vector<Part> parts;
};
ModelSummary Summarize(const ModelConfig& config);

struct MemoryRequest {
  int64_t batch = 1, length = 1;
  bool training = true;
  bool recompute = false;  // activations of a layer are computed again for its gradients
  int threads = 1;         // each has working memory of its own
  Placement placement;     // of the model; no GPU need be there
};
MemoryEstimate EstimateMemory(const ModelConfig& config, const MemoryRequest& request);

}  // namespace favor

#endif  // FAVOR_MODEL_H_
