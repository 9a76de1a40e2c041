// Multi-head attention: queries, keys and values from a token's row, attention in every head, and a
// mix of the heads.
#ifndef FAVOR_LAYERS_MULTI_HEAD_ATTENTION_H_
#define FAVOR_LAYERS_MULTI_HEAD_ATTENTION_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "attention/trace.h"
#include "favor/attention.h"
#include "layers/arena.h"
#include "layers/attention_cache.h"
#include "layers/convolution.h"
#include "layers/head_decay.h"
#include "layers/head_features.h"
#include "layers/head_groups.h"
#include "layers/joint_linear.h"
#include "layers/linear.h"
#include "layers/positions.h"

namespace favor::layers {

class MultiHeadAttention {
 public:
  // Each group of heads names its attention; plans are drawn by Redraw. Either all groups are
  // causal or none is.
  MultiHeadAttention(ParameterSet& parameters, const std::string& name, const AttentionShape& shape,
                     double output_gain);

  // Draws ω anew: a pure function of (seed, redraw). Does nothing for groups without random
  // features.
  void Redraw(uint64_t seed, uint64_t redraw);

  // Queries, keys and values side by side.
  enum Part : size_t { kQueries, kKeys, kValues, kParts };
  struct Columns {
    View all;                       // [tokens, columns of all parts]
    std::array<View, kParts> part;  // its columns of each
  };
  struct Activations {
    Columns projected;                     // before convolution; empty without one
    Columns rows;                          // queries and keys after rotation
    View attended;                         // [tokens, columns]
    View query_features, key_features;     // of groups whose heads are projected
    HeadDecay::Activations decay;          // of heads that forget
    std::vector<attention::Trace> traces;  // one for each group of heads
  };
  Activations Reserve(Arena& arena, int64_t tokens) const;
  struct Workspace {
    View grad_attended;
    Columns grad_rows, grad_projected;
    View grad_query_features, grad_key_features;
    HeadDecay::Workspace decay;
  };
  Workspace ReserveWorkspace(Arena& arena, int64_t tokens, bool training) const;
  // Bytes of the traces of a batch of this shape, of rows of `type`.
  int64_t TraceBytes(int64_t batch, int64_t length, DataType type, const Device& device) const;

  // How the rows of x are read.
  struct Rows {
    Sequences sequences;
    const WaveTable* rotary = nullptr;  // angles for one head dim, which all groups then share
    FirstRow first{};                   // row of the first tokens among the angles
    // If given, the rows (its sequences, without a mask) follow the cache's prefixes, attend to
    // them too, and become part of them. No gradients.
    AttentionCache* cache = nullptr;
  };

  // x, y [batch·length, width]; `then` is an operation on y. Traces are filled if gradients will
  // follow. Rows that are unusable for attention are counted in the tally.
  void Forward(const Context& context, const Rows& rows, ConstView x, Activations& a, bool training,
               TallyEntry* tally, const kernels::MatmulEpilogue& then, View y) const;
  void Backward(const Context& context, const Rows& rows, ConstView x, const Activations& a,
                const Workspace& w, ConstView grad_y, TallyEntry* tally, View grad_x);

  // A cache with an empty prefix; causal only.
  AttentionCache MakeCache(DataType type, const Device& device) const {
    return AttentionCache(shape_, type, device);
  }

 private:
  // Parts that attention reads.
  Part FirstPart() const { return shape_.ReadsQueriesAndKeys() ? kQueries : kValues; }
  Columns ReserveColumns(Arena& arena, int64_t tokens) const;
  // The columns of the parts that attention reads.
  View Read(const Columns& columns) const;

  // Fills a.rows, up to rotation.
  void Project(const Context& context, const Rows& rows, ConstView x, const Activations& a) const;
  void ProjectBackward(const Context& context, const Rows& rows, ConstView x, const Activations& a,
                       const Workspace& w, View grad_x);
  void Rotate(const Context& context, const Rows& rows, bool back, const Columns& columns) const;

  // Both for groups whose heads are projected, one after the other.
  void ProjectHeads(const Context& context, const Activations& a) const;
  void ProjectHeadsBackward(const Context& context, const Activations& a, const Workspace& w);

  attention::Call CallOf(const HeadGroup& group, const Rows& rows, const Activations& a,
                         const Context& context) const;

  // The projections of a group's queries and keys.
  struct GroupFeatures {
    HeadFeatures queries, keys;
  };

  AttentionShape shape_;
  JointLinear projection_;
  std::optional<Convolution> convolution_;
  std::vector<std::optional<GroupFeatures>> features_;  // one for each group
  std::optional<HeadDecay> decay_;                      // if some heads forget
  Linear output_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_MULTI_HEAD_ATTENTION_H_
