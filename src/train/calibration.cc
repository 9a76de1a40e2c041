#include "train/calibration.h"

#include <cmath>
#include <string>

#include "core/element.h"

namespace favor::train {
namespace {

constexpr size_t kMostTokens = 4096, kMostInputs = 64;

double At(const ConstView& array, int64_t index) {
  return LoadElement(array.data(), array.type(), index);
}

const layers::Parameter& Find(const models::Network& network, const std::string& name) {
  for (const auto& parameter : network.parameters().all())
    if (parameter->name == name) return *parameter;
  throw Error(ErrorCode::kInvalidData, name, "is not a parameter of the model");
}

// What the feed-forward layer reads of a row: with pre-norm, the row after the norm.
std::vector<double> InputOf(const models::Network& network, size_t layer, const ConstView& rows,
                            int64_t row) {
  const ModelConfig& config = network.config();
  const int64_t width = config.width;
  std::vector<double> x;
  double mean = 0, square = 0;
  for (int64_t i = 0; i < width; ++i) {
    x.push_back(At(rows, row * width + i));
    mean += x.back() / static_cast<double>(width);
  }
  if (config.norm == Norm::kPost) return x;
  for (const double value : x) square += (value - mean) * (value - mean);
  const std::string name = "layers." + std::to_string(layer) + ".feed_forward_norm.";
  const ConstView gain = Find(network, name + "weight").value,
                  bias = Find(network, name + "bias").value;
  const double root = std::sqrt(square / static_cast<double>(width) + config.norm_epsilon);
  for (int64_t i = 0; i < width; ++i)
    x[static_cast<size_t>(i)] =
        (x[static_cast<size_t>(i)] - mean) / root * At(gain, i) + At(bias, i);
  return x;
}

}  // namespace

std::vector<Calibration> Calibrate(const models::Network& network, std::span<const Batch> batches,
                                   const Context& context) {
  const ModelConfig& config = network.config();
  std::vector<Calibration> all(static_cast<size_t>(config.layers));
  for (Calibration& one : all) one.values.resize(static_cast<size_t>(config.ff));
  models::PassBuffers buffers = network.MakeBuffers();
  for (const Batch& batch : batches) {
    // Buffers of a training pass keep what every layer computes.
    network.Prepare({.batch = batch.batch, .length = batch.length, .training = true}, buffers);
    Tally tally = network.MakeTally(context);
    network.Evaluate(batch, {.context = context, .tally = &tally}, buffers);
    network.Read(tally);
    for (size_t layer = 0; layer < all.size(); ++layer) {
      const models::Block::Activations& a = buffers.activations.blocks[layer];
      Calibration& to = all[layer];
      for (int64_t row = 0; row < batch.batch * batch.length; ++row) {
        if (!batch.mask.empty() && batch.mask[static_cast<size_t>(row)] == 0) continue;
        if (to.values[0].size() >= kMostTokens) break;
        for (int64_t unit = 0; unit < config.ff; ++unit)
          to.values[static_cast<size_t>(unit)].push_back(
              At(a.feed_forward.inner, row * config.ff + unit));
        if (to.inputs.size() < kMostInputs)
          to.inputs.push_back(InputOf(network, layer, a.middle, row));
      }
    }
  }
  return all;
}

}  // namespace favor::train
