// How much a token makes the past forget: ℓ = log σ(logit), at least kLeastLogDecay.
#ifndef FAVOR_KERNELS_LOG_DECAY_H_
#define FAVOR_KERNELS_LOG_DECAY_H_

#include "core/tally.h"
#include "kernels/backend.h"
#include "kernels/sequences.h"

namespace favor::kernels {

// Logits have any strides: one row may stand for all.
struct LogDecayArguments {
  ConstView logits;  // [batch·length, heads]
  Sequences sequences;
  View log_decay;     // [batch, heads, length]; on a GPU f32
  TallyEntry* tally;  // counts rows with logits that are not finite; their ℓ is 0
};

struct LogDecayGradients {
  ConstView logits;
  Sequences sequences;
  ConstView grad_log_decay;  // [batch, heads, length]; on a GPU f32
  View grad_logits;          // [batch·length, heads]
};

namespace cpu {  // the double instances of its loops are the reference
void LogDecay(const LogDecayArguments& a, const Context& context);
void LogDecayBackward(const LogDecayGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void LogDecay(const LogDecayArguments& a, const Context& context);
void LogDecayBackward(const LogDecayGradients& a, const Context& context);
}  // namespace cuda

inline void LogDecay(const LogDecayArguments& a, const Context& context) {
  Run<LogDecayArguments>({.name = "log decay",
                          .reference = cpu::LogDecay,
                          .cpu = cpu::LogDecay,
                          .cuda = cuda::LogDecay},
                         a.log_decay, a, context);
}
inline void LogDecayBackward(const LogDecayGradients& a, const Context& context) {
  Run<LogDecayGradients>({.name = "log decay",
                          .reference = cpu::LogDecayBackward,
                          .cpu = cpu::LogDecayBackward,
                          .cuda = cuda::LogDecayBackward,
                          .describe = OfGradients},
                         a.grad_logits, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LOG_DECAY_H_
