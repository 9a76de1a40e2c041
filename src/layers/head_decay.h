// How much each token makes a head forget of what came before it: ℓ = log σ(w·x + b) for each head,
// or log σ(b) for all tokens alike. A head's memory is 1/(1 − σ(b)) = 1 + e^b tokens at first.
#ifndef FAVOR_LAYERS_HEAD_DECAY_H_
#define FAVOR_LAYERS_HEAD_DECAY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tally.h"
#include "favor/context.h"
#include "kernels/sequences.h"
#include "layers/arena.h"
#include "layers/parameter.h"

namespace favor::layers {

// The memory, in tokens, that head `head` of `heads` begins with: from 16 to 1024, in even steps of
// the logarithm; 128 if there is one head.
double FirstMemory(int64_t head, int64_t heads);

class HeadDecay {
 public:
  // One head for each entry of `memories`. "<name>.bias" [heads] and, if every token has its own
  // decay, "<name>.weight" [heads, width], which begins with zeros.
  HeadDecay(ParameterSet& parameters, const std::string& name, int64_t width, bool per_token,
            const std::vector<double>& memories);

  struct Activations {
    View logits;     // [tokens, heads]; empty if all tokens are alike
    View log_decay;  // [batch, heads, length], by its own memory [tokens · heads]
  };
  Activations Reserve(Arena& arena, int64_t tokens) const;
  struct Workspace {
    View grad_log_decay, grad_logits;  // [tokens · heads], [tokens, heads]
  };
  Workspace ReserveWorkspace(Arena& arena, int64_t tokens) const;

  int64_t heads() const { return heads_; }
  // An array of [tokens · heads] seen as [batch, heads, length].
  View ByHead(const View& array, const kernels::Sequences& sequences) const;

  // x [tokens, width].
  void Forward(const Context& context, const kernels::Sequences& sequences, ConstView x,
               const Activations& a, TallyEntry* tally) const;
  // From grad_log_decay of the workspace; adds to grad_x.
  void Backward(const Context& context, const kernels::Sequences& sequences, ConstView x,
                const Activations& a, const Workspace& w, View grad_x);

 private:
  // The logits of all tokens: one row for each, or one for all.
  ConstView Logits(const Activations& a, int64_t tokens) const;

  int64_t heads_;
  Parameter* weight_ = nullptr;  // null: all tokens are alike
  Parameter* bias_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_HEAD_DECAY_H_
