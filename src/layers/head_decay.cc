#include "layers/head_decay.h"

#include <cmath>

#include "kernels/column_sums.h"
#include "kernels/log_decay.h"
#include "kernels/matmul.h"

namespace favor::layers {

double FirstMemory(int64_t head, int64_t heads) {
  constexpr double kLeast = 16, kMost = 1024, kOnly = 128;
  if (heads == 1) return kOnly;
  return kLeast *
         std::pow(kMost / kLeast, static_cast<double>(head) / static_cast<double>(heads - 1));
}

HeadDecay::HeadDecay(ParameterSet& parameters, const std::string& name, int64_t width,
                     bool per_token, const std::vector<double>& memories)
    : heads_(static_cast<int64_t>(memories.size())) {
  if (per_token) weight_ = &parameters.Add(name + ".weight", {heads_, width}, {}, true);
  Initial first;
  for (const double memory : memories) first.values.push_back(std::log(memory - 1));
  bias_ = &parameters.Add(name + ".bias", {heads_}, first, false);
}

HeadDecay::Activations HeadDecay::Reserve(Arena& arena, int64_t tokens) const {
  return {.logits = weight_ != nullptr ? arena.Take({tokens, heads_}) : View(),
          .log_decay = arena.TakeExact({tokens * heads_})};
}

HeadDecay::Workspace HeadDecay::ReserveWorkspace(Arena& arena, int64_t tokens) const {
  return {.grad_log_decay = arena.TakeExact({tokens * heads_}),
          .grad_logits = weight_ != nullptr ? arena.Take({tokens, heads_})
                                            : arena.TakeExact({tokens, heads_})};
}

View HeadDecay::ByHead(const View& array, const kernels::Sequences& sequences) const {
  const Shape shape{sequences.batch, heads_, sequences.length};
  return {array.data(), array.type(), shape, RowMajorStrides(shape), array.device()};
}

ConstView HeadDecay::Logits(const Activations& a, int64_t tokens) const {
  if (weight_ != nullptr) return a.logits;
  const ConstView bias = bias_->value;  // 16 bits are too few for long memories
  return {bias.data(), bias.type(), {tokens, heads_}, {0, 1}, bias.device()};
}

void HeadDecay::Forward(const Context& context, const kernels::Sequences& sequences, ConstView x,
                        const Activations& a, TallyEntry* tally) const {
  if (weight_ != nullptr)
    kernels::Matmul(
        {.a = x, .b = kernels::Transposed(weight_->read), .c = a.logits, .bias = bias_->read},
        context);
  kernels::LogDecay({.logits = Logits(a, x.size(0)),
                     .sequences = sequences,
                     .log_decay = ByHead(a.log_decay, sequences),
                     .tally = tally},
                    context);
}

void HeadDecay::Backward(const Context& context, const kernels::Sequences& sequences, ConstView x,
                         const Activations& a, const Workspace& w, View grad_x) {
  kernels::LogDecayBackward({.logits = Logits(a, x.size(0)),
                             .sequences = sequences,
                             .grad_log_decay = ByHead(w.grad_log_decay, sequences),
                             .grad_logits = w.grad_logits},
                            context);
  kernels::AddColumnSums({.rows = w.grad_logits, .sums = bias_->grad}, context);
  if (weight_ == nullptr) return;
  kernels::Matmul({kernels::Transposed(w.grad_logits), x, weight_->grad, /*add=*/true}, context);
  kernels::Matmul({.a = w.grad_logits, .b = weight_->read, .c = grad_x, .add = true}, context);
}

}  // namespace favor::layers
