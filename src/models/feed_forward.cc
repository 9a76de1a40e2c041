#include "models/feed_forward.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error_text.h"
#include "kernels/activation.h"

namespace favor::models {
namespace {

// Inputs come out of a norm: each of their elements has variance 1, and so has w·x with weights as
// they are at first. Columns are divided for a range of three standard deviations.
Linearisation LinearisationOf(const ModelConfig& config) {
  constexpr double kDeviations = 3;
  const LinearisedLayers& layers = config.linearised;
  const int64_t dim = config.width + 1;  // the bias
  return LineariseForColumns(
      FunctionOf(config.activation),
      RandomInputs(dim, layers.range / kDeviations, std::sqrt(static_cast<double>(dim))),
      {.degree = static_cast<int>(layers.degree),
       .columns = layers.columns,
       .exact_quadratic = layers.exact_quadratic,
       .fit = layers.fit,
       .interval = Interval{-layers.range, layers.range}});
}

}  // namespace

Function FunctionOf(Activation activation) {
  return [activation, context = std::make_shared<Context>(ContextOptions{.threads = 1})](double t) {
    double value = 0;
    kernels::reference::Activate({.f = activation, .x = ConstView(&t, {1}), .y = View(&value, {1})},
                                 *context);
    return value;
  };
}

layers::FeedForwardShape FeedForwardShapeOf(const ModelConfig& config, double output_gain) {
  layers::FeedForwardShape shape{.width = config.width,
                                 .ff = config.ff,
                                 .activation = config.activation,
                                 .output_gain = output_gain,
                                 .linearised = {}};
  if (config.feed_forward == FeedForwardKind::kLinearised)
    shape.linearised = {.linearisation = LinearisationOf(config),
                        .own_curves = config.linearised.own_curves};
  return shape;
}

void CheckFeedForward(const ModelConfig& config) {
  const LinearisedLayers& given = config.linearised;
  if (config.feed_forward == FeedForwardKind::kDense) {
    if (given != LinearisedLayers{})
      Throw(ErrorCode::kInvalidOption, "feed_forward",
            "given options of linearised layers for dense ones, expected 'linearised'");
    return;
  }
  if (config.width + 1 > FeaturePlan::kMaxDim)
    Throw(ErrorCode::kInvalidOption, "feed_forward",
          "given linearised layers of width {}, expected at most {}", config.width,
          FeaturePlan::kMaxDim - 1);
  if (given.exact_quadratic && given.degree < 2)
    Throw(ErrorCode::kInvalidOption, "ff_exact_quadratic",
          "given for degree {}, expected degree 2 or more", given.degree);
  const Linearisation linearisation = LinearisationOf(config);
  for (const Linearisation::Part& part : linearisation.Parts()) {
    if (part.columns > FeaturePlan::kMaxRowWidth)
      Throw(ErrorCode::kInvalidOption, "ff_exact_quadratic",
            "given for a width of {}, which takes {} columns, expected at most {}", config.width,
            part.columns, FeaturePlan::kMaxRowWidth);
  }
}

std::string FeedForwardText(const ModelConfig& config) {
  if (config.feed_forward == FeedForwardKind::kDense) return "dense feed-forward";
  return fmt::format("linearised feed-forward (degree {}, {} columns{}{})",
                     config.linearised.degree, LinearisationOf(config).Width(),
                     config.linearised.exact_quadratic ? ", exact quadratic" : "",
                     config.linearised.own_curves ? ", own curves" : "");
}

}  // namespace favor::models
