// AdamW's two moments of every parameter (kernels/adamw.h has the formula).
#ifndef FAVOR_TRAIN_ADAMW_H_
#define FAVOR_TRAIN_ADAMW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/tally.h"
#include "favor/context.h"
#include "layers/parameter.h"
#include "models/checkpoint.h"

namespace favor::train {

struct AdamWOptions {
  double beta1, beta2, epsilon, weight_decay;
};

class AdamW {
 public:
  AdamW(const layers::ParameterSet& parameters, const AdamWOptions& options);

  struct StepOptions {
    int64_t number;  // ≥ 1
    double rate;
    double clip = 0;  // largest norm of the gradient; 0: no limit
  };
  // Writes nothing if the tally, whose first entry has the loss and the norm of the gradients, says
  // that the step is unusable.
  void Step(const Context& context, const StepOptions& step, const Tally& tally,
            layers::ParameterSet& parameters);

  // Both moments by name, "optimizer.first.…" and "optimizer.second.…".
  std::vector<models::NamedTensor> State() const;
  // Throws if one is missing, has another shape or holds a number that is not finite.
  void Check(const models::Checkpoint& checkpoint) const;
  // Loads the moments of a checkpoint that was checked.
  void Load(const models::Checkpoint& checkpoint);

 private:
  AdamWOptions options_;
  Tensor first_, second_;  // moments of all parameters, laid out as ParameterSet::values
  struct Moment {
    std::string name;
    View values;
  };
  std::vector<Moment> moments_;  // views of first_ and second_ by parameter
};

}  // namespace favor::train

#endif  // FAVOR_TRAIN_ADAMW_H_
