// A model in a file: one safetensors file with the weights by name and, in its metadata, the config
// of the run as JSON and the progress of training. One file is one commit point.
#ifndef FAVOR_MODELS_CHECKPOINT_H_
#define FAVOR_MODELS_CHECKPOINT_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "favor/model.h"
#include "io/safetensors.h"
#include "models/network.h"

namespace favor::models {

constexpr std::string_view kLastName = "last.safetensors", kBestName = "best.safetensors",
                           kConfigName = "config.json", kLogName = "log.jsonl",
                           kTokenizerName = "tokenizer.model", kHeldOutName = "held_out.txt",
                           kClustersName = "clusters.txt", kLabelsName = "labels.tsv",
                           kReportName = "report.html";
constexpr size_t kMaxConfigBytes = 1 << 20;

// What a checkpoint holds besides its tensors.
struct CheckpointInfo {
  std::string config;  // JSON of the run: "model" is the section that matters here
  std::string state;   // JSON of training, opaque here
};

// Tensors to store besides the weights, such as those of the optimizer.
struct NamedTensor {
  std::string name;
  ConstView values;
};

// Throws kInvalidData rather than write weights that are not finite.
void WriteCheckpoint(const std::string& path, const Network& network, const CheckpointInfo& info,
                     std::span<const NamedTensor> more = {});

// A checkpoint in memory: its format and its checksum have been checked.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& path);
  Checkpoint(std::string bytes, const std::string& name);
  Checkpoint(const Checkpoint&) = delete;  // its entries point into its own bytes
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::string& name() const { return name_; }

  const CheckpointInfo& info() const { return info_; }
  const ModelConfig& model() const { return model_; }
  uint64_t seed() const { return seed_; }  // seed of ω; redraw() is the number of its draw
  // Throws if the tensor is missing, has another shape or does not hold floats.
  void CheckShape(const std::string& name, const Shape& shape) const;
  // Throws likewise, and also if some number is not finite.
  void CheckNumbers(const std::string& name, const Shape& shape) const;
  // Fills `to`, contiguous and on any device, converted to its type; throws likewise.
  void Read(const std::string& name, View to) const;
  // A network with these weights. Nothing is allocated before all shapes are known to fit.
  std::unique_ptr<Network> MakeNetwork(const Placement& placement = {}) const;
  // Reads the weights, and ω of the same draw, into a network of this config, which does not show
  // them to passes in another type before a Refresh. Nothing changes before all shapes are known
  // to fit and all numbers to be finite.
  void ReadInto(Network& network) const;

 private:
  std::string name_, bytes_;
  io::Safetensors file_;
  CheckpointInfo info_;
  ModelConfig model_;
  uint64_t seed_ = 0, redraw_ = 0;
};

// The "model" section of a run's config.
ModelConfig ModelConfigFromJson(std::string_view config, const std::string& who);

// The file itself, or the best (else the last) checkpoint of a run's folder, whose config.json must
// be the one the checkpoint was made with. Throws kIo if there is none.
std::unique_ptr<Checkpoint> OpenCheckpoint(const std::string& path);

}  // namespace favor::models

#endif  // FAVOR_MODELS_CHECKPOINT_H_
