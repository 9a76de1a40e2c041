#include "train/adamw.h"

#include "kernels/adamw.h"

namespace favor::train {

AdamW::AdamW(const layers::ParameterSet& parameters, const AdamWOptions& options)
    : options_(options),
      first_(parameters.values().shape(), parameters.type(), parameters.device()),
      second_(parameters.values().shape(), parameters.type(), parameters.device()) {
  for (const auto& parameter : parameters.all()) {
    moments_.push_back({"optimizer.first." + parameter->name, layers::PartOf(first_, *parameter)});
    moments_.push_back(
        {"optimizer.second." + parameter->name, layers::PartOf(second_, *parameter)});
  }
}

void AdamW::Step(const Context& context, const StepOptions& step, const Tally& tally,
                 layers::ParameterSet& parameters) {
  kernels::AdamW({.beta1 = options_.beta1,
                  .beta2 = options_.beta2,
                  .epsilon = options_.epsilon,
                  .weight_decay = options_.weight_decay,
                  .step = step.number,
                  .rate = step.rate,
                  .clip = step.clip,
                  .tally = tally.At(),
                  .entries = tally.entries(),
                  .segments = parameters.segments(),
                  .gradients = parameters.gradients(),
                  .values = parameters.values(),
                  .first = first_,
                  .second = second_},
                 context);
  parameters.Refresh(context);
}

std::vector<models::NamedTensor> AdamW::State() const {
  std::vector<models::NamedTensor> state;
  for (const Moment& moment : moments_) state.push_back({moment.name, moment.values});
  return state;
}

void AdamW::Check(const models::Checkpoint& checkpoint) const {
  for (const Moment& moment : moments_) checkpoint.CheckNumbers(moment.name, moment.values.shape());
}

void AdamW::Load(const models::Checkpoint& checkpoint) {
  for (const Moment& moment : moments_) checkpoint.Read(moment.name, moment.values);
}

}  // namespace favor::train
