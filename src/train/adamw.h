// AdamW (Loshchilov and Hutter 2019): Adam with weight decay apart from the gradient.
//   m ← β₁m + (1 − β₁)g    v ← β₂v + (1 − β₂)g²
//   w ← w − rate·(m̂/(√v̂ + ε) + decay·w),  m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ)
#ifndef FAVOR_TRAIN_ADAMW_H_
#define FAVOR_TRAIN_ADAMW_H_

#include <cstdint>
#include <vector>

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

  // Step number `step` ≥ 1 with gradients times `gradient_scale`.
  void Step(const Context& context, int64_t step, double rate, double gradient_scale,
            layers::ParameterSet& parameters);

  // Both moments by name, "optimizer.first.…" and "optimizer.second.…".
  std::vector<models::NamedTensor> State() const;
  // Throws if one is missing, has another shape or holds a number that is not finite.
  void Check(const models::Checkpoint& checkpoint) const;
  // Of a checkpoint that was checked.
  void Load(const models::Checkpoint& checkpoint);

 private:
  AdamWOptions options_;
  struct Moments {
    std::string First() const { return "optimizer.first." + name; }
    std::string Second() const { return "optimizer.second." + name; }

    std::string name;
    Tensor first, second;
  };
  std::vector<Moments> moments_;
};

// The norm of all gradients together, in double and in a fixed order.
double GradientNorm(const Context& context, const layers::ParameterSet& parameters);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_ADAMW_H_
