// Queries, keys and values from a token's row, attention in every head, and a mix of the heads.
#ifndef FAVOR_LAYERS_MULTI_HEAD_ATTENTION_H_
#define FAVOR_LAYERS_MULTI_HEAD_ATTENTION_H_

#include <optional>
#include <string>
#include <vector>

#include "attention/trace.h"
#include "favor/attention.h"
#include "layers/arena.h"
#include "layers/attention_cache.h"
#include "layers/convolution.h"
#include "layers/head_groups.h"
#include "layers/linear.h"
#include "layers/positions.h"

namespace favor::layers {

class MultiHeadAttention {
 public:
  // Groups of heads say which attention; plans are drawn by Redraw. All groups are causal or none.
  MultiHeadAttention(ParameterSet& parameters, const std::string& name, const AttentionShape& shape,
                     double output_gain);

  // Draws ω anew: a pure function of (seed, redraw). Nothing to do for other attention.
  void Redraw(uint64_t seed, uint64_t redraw);

  struct Activations {
    View q, k, v, attended;                      // [tokens, columns]; q and k after rotation
    View projected_q, projected_k, projected_v;  // before convolution; none: q, k, v themselves
    std::vector<attention::Trace> traces;        // one for each group of heads
  };
  Activations Reserve(Arena& arena, int64_t tokens) const;
  struct Workspace {
    View grad_attended, grad_q, grad_k, grad_v;
    View grad_convolved;  // [tokens, most columns], before it goes back through a convolution
  };
  Workspace ReserveWorkspace(Arena& arena, int64_t tokens, bool training) const;
  // Memory of a trace of so many tokens.
  int64_t TraceBytes(int64_t batch, int64_t length) const;

  // How the rows of x are to be read.
  struct Rows {
    Sequences sequences;
    const WaveTable* rotary = nullptr;  // of head dim, which all groups share then
    // If given, the rows (one sequence, without a mask) follow the tokens that it holds, attend to
    // them too, and become part of it. No gradients.
    AttentionCache* cache = nullptr;
  };

  // x, y [batch·length, width]. Traces are filled if gradients will follow. Rows that attention
  // cannot compute with are counted in the tally.
  void Forward(const Context& context, const Rows& rows, ConstView x, Activations& a, bool training,
               TallyEntry* tally, View y) const;
  void Backward(const Context& context, const Rows& rows, ConstView x, const Activations& a,
                const Workspace& w, ConstView grad_y, TallyEntry* tally, View grad_x);

  AttentionCache MakeCache() const { return AttentionCache(shape_); }  // of no token; causal only

 private:
  // One of queries, keys and values: the layer, and the convolution behind it.
  struct Projection {
    Linear linear;
    std::optional<Convolution> convolution;

    void Forward(const Context& context, const Sequences& sequences, ConstView x, View projected,
                 View y) const;
    // Behind the rows in `tail`, which becomes that of these rows.
    void Continue(const Context& context, ConstView x, View projected, Tail& tail, View y) const;
    void Backward(const Context& context, const Sequences& sequences, ConstView x,
                  ConstView projected, View grad_y, View workspace, View grad_x, bool add);
  };
  Projection MakeProjection(ParameterSet& parameters, const std::string& name, int64_t columns);

  attention::Call CallOf(const HeadGroup& group, const Rows& rows, const Activations& a,
                         const Context& context) const;

  AttentionShape shape_;
  Projection query_, key_, value_;
  Linear output_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_MULTI_HEAD_ATTENTION_H_
