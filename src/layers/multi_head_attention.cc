#include "layers/multi_head_attention.h"

#include <algorithm>

#include "attention/attend.h"
#include "core/device_work.h"
#include "favor/random.h"
#include "kernels/copy.h"

namespace favor::layers {

MultiHeadAttention::MultiHeadAttention(ParameterSet& parameters, const std::string& name,
                                       const AttentionShape& shape, double output_gain)
    : shape_(shape),
      query_(MakeProjection(parameters, name + ".query", shape.query_columns)),
      key_(MakeProjection(parameters, name + ".key", shape.key_columns)),
      value_(MakeProjection(parameters, name + ".value", shape.value_columns)),
      output_(parameters, name + ".output", shape.output_columns, shape.width, output_gain) {
  for (size_t i = 0; i < shape_.groups.size(); ++i) {
    const HeadGroup& group = shape_.groups[i];
    const std::string own = shape_.groups.size() == 1 ? name : name + "." + std::to_string(i);
    features_.emplace_back();
    if (group.feature_dim == 0) continue;
    features_.back() =
        GroupFeatures{.queries = HeadFeatures(parameters, own + ".query_features", group.heads,
                                              group.dim, group.feature_dim),
                      .keys = HeadFeatures(parameters, own + ".key_features", group.kv_heads,
                                           group.dim, group.feature_dim)};
  }
  if (!shape_.memories.empty())
    decay_.emplace(parameters, name + ".decay", shape_.width, shape_.decay_per_token,
                   shape_.memories);
}

MultiHeadAttention::Projection MultiHeadAttention::MakeProjection(ParameterSet& parameters,
                                                                  const std::string& name,
                                                                  int64_t columns) {
  Projection projection{.linear = Linear(parameters, name, shape_.width, columns),
                        .convolution = {}};
  if (shape_.convolution > 0)
    projection.convolution.emplace(parameters, name + "_convolution", shape_.convolution, columns,
                                   shape_.groups[0].options.causal);
  return projection;
}

void MultiHeadAttention::Projection::Forward(const Context& context, const Sequences& sequences,
                                             ConstView x, View projected, View y) const {
  if (!convolution) return linear.Forward(context, x, y);
  linear.Forward(context, x, projected);
  convolution->Forward(context, sequences, projected, y);
}

void MultiHeadAttention::Projection::Continue(const Context& context, ConstView x, View projected,
                                              Tail& tail, View y) const {
  if (!convolution) return linear.Forward(context, x, y);
  linear.Forward(context, x, projected);
  const int64_t before = tail.rows(), rows = y.size(0), length = before + rows;
  const WorkArray joined(context, {length, y.size(1)}, y.type()),
      convolved(context, {length, y.size(1)}, y.type());
  tail.Join(context, projected, joined.view());
  convolution->Forward(context, {.batch = 1, .length = length, .mask = {}}, joined.view(),
                       convolved.view());
  kernels::Copy({.from = convolved.view().Range(0, before, rows), .to = y}, context);
}

void MultiHeadAttention::Projection::Backward(const Context& context, const Sequences& sequences,
                                              ConstView x, ConstView projected, View grad_y,
                                              View workspace, View grad_x, bool add) {
  if (!convolution) return linear.Backward(context, x, grad_y, grad_x, add);
  const View grad_projected(workspace.data(), workspace.type(), grad_y.shape(),
                            RowMajorStrides(grad_y.shape()), workspace.device());
  convolution->Backward(context, sequences, projected, grad_y, grad_projected);
  linear.Backward(context, x, grad_projected, grad_x, add);
}

void MultiHeadAttention::Redraw(uint64_t seed, uint64_t redraw) {
  for (size_t i = 0; i < shape_.groups.size(); ++i) {
    HeadGroup& group = shape_.groups[i];
    if (!attention::FindKind(group.options.attention).TakesPlan()) continue;
    // The first group draws from the seed itself, as a layer with one group does.
    const uint64_t own = i == 0 ? seed : RandomStream(seed, "omega of groups").Bits(i);
    group.options.plan =
        FeaturePlan::Draw(group.options.features, group.heads, group.SeenDim(), own, redraw);
  }
}

MultiHeadAttention::Activations MultiHeadAttention::Reserve(Arena& arena, int64_t tokens) const {
  Activations a{.q = arena.Take({tokens, shape_.query_columns}),
                .k = arena.Take({tokens, shape_.key_columns}),
                .v = arena.Take({tokens, shape_.value_columns}),
                .attended = arena.Take({tokens, shape_.output_columns})};
  if (shape_.convolution > 0) {
    a.projected_q = arena.Take({tokens, shape_.query_columns});
    a.projected_k = arena.Take({tokens, shape_.key_columns});
    a.projected_v = arena.Take({tokens, shape_.value_columns});
  }
  if (shape_.query_feature_columns > 0) {
    a.query_features = arena.Take({tokens, shape_.query_feature_columns});
    a.key_features = arena.Take({tokens, shape_.key_feature_columns});
  }
  if (decay_) a.decay = decay_->Reserve(arena, tokens);
  return a;
}

MultiHeadAttention::Workspace MultiHeadAttention::ReserveWorkspace(Arena& arena, int64_t tokens,
                                                                   bool training) const {
  if (!training) return {};
  Workspace w{.grad_attended = arena.Take({tokens, shape_.output_columns}),
              .grad_q = arena.Take({tokens, shape_.query_columns}),
              .grad_k = arena.Take({tokens, shape_.key_columns}),
              .grad_v = arena.Take({tokens, shape_.value_columns}),
              .grad_convolved = {},
              .grad_query_features = {},
              .grad_key_features = {},
              .decay = {}};
  if (shape_.convolution > 0) {
    w.grad_convolved = arena.Take(
        {tokens, std::max({shape_.query_columns, shape_.key_columns, shape_.value_columns})});
  }
  if (shape_.query_feature_columns > 0) {
    w.grad_query_features = arena.Take({tokens, shape_.query_feature_columns});
    w.grad_key_features = arena.Take({tokens, shape_.key_feature_columns});
  }
  if (decay_) w.decay = decay_->ReserveWorkspace(arena, tokens);
  return w;
}

int64_t MultiHeadAttention::TraceBytes(int64_t batch, int64_t length, const Device& device) const {
  const int64_t row = ItemBytes(attention::RowTypeOn(device));
  int64_t bytes = 0;
  for (const HeadGroup& group : shape_.groups) {
    bytes += batch * group.heads * length * row + attention::FindKind(group.options.attention)
                                                      .TraceBytes({.batch = batch,
                                                                   .heads = group.heads,
                                                                   .kv_heads = group.kv_heads,
                                                                   .dim = group.SeenDim(),
                                                                   .value_dim = group.value_dim},
                                                                  group.options);
  }
  return bytes;
}

attention::Call MultiHeadAttention::CallOf(const HeadGroup& group, const Rows& rows,
                                           const Activations& a, const Context& context) const {
  AttentionOptions options = group.options;
  options.key_mask = rows.sequences.mask;
  options.reference = a.q.type() == DataType::kF64;
  const int64_t length = rows.sequences.length;
  if (group.Forgets())
    options.log_decay = group.Decays(decay_->ByHead(a.decay.log_decay, rows.sequences));
  return attention::CheckCall(
      {group.SeenQueries(a.q, a.query_features, length),
       group.SeenKeys(a.k, a.key_features, length), group.Values(a.v, length)},
      options, context, attention::MarksFrom::kModel);
}

void MultiHeadAttention::Forward(const Context& context, const Rows& rows, ConstView x,
                                 Activations& a, bool training, TallyEntry* tally,
                                 const kernels::MatmulEpilogue& then, View y) const {
  const Sequences& sequences = rows.sequences;
  const bool reads = shape_.ReadsQueriesAndKeys();
  if (rows.cache == nullptr) {
    if (reads) query_.Forward(context, sequences, x, a.projected_q, a.q);
    if (reads) key_.Forward(context, sequences, x, a.projected_k, a.k);
    value_.Forward(context, sequences, x, a.projected_v, a.v);
  } else {
    if (reads) query_.Continue(context, x, a.projected_q, rows.cache->query_tail(), a.q);
    if (reads) key_.Continue(context, x, a.projected_k, rows.cache->key_tail(), a.k);
    value_.Continue(context, x, a.projected_v, rows.cache->value_tail(), a.v);
  }
  if (reads && rows.rotary != nullptr) {
    rows.rotary->Rotate(context, sequences.length, /*back=*/false, a.q);
    rows.rotary->Rotate(context, sequences.length, /*back=*/false, a.k);
  }
  ProjectHeads(context, a);
  if (decay_) decay_->Forward(context, sequences, x, a.decay, tally);
  if (rows.cache != nullptr) {
    rows.cache->Attend(
        context,
        {.q = a.q,
         .k = a.k,
         .v = a.v,
         .query_features = a.query_features,
         .key_features = a.key_features,
         .log_decay = decay_ ? decay_->ByHead(a.decay.log_decay, sequences) : ConstView()},
        tally, a.attended);
  } else {
    a.traces.resize(training ? shape_.groups.size() : 0);
    for (size_t i = 0; i < shape_.groups.size(); ++i) {
      const HeadGroup& group = shape_.groups[i];
      const attention::Call call = CallOf(group, rows, a, context);
      if (training) a.traces[i] = attention::Trace(call, std::move(a.traces[i]));
      attention::Forward(call,
                         {.out = group.Outputs(a.attended, sequences.length),
                          .trace = training ? &a.traces[i] : nullptr,
                          .tally = tally},
                         context);
    }
  }
  output_.Forward(context, a.attended, y, then);
}

void MultiHeadAttention::Backward(const Context& context, const Rows& rows, ConstView x,
                                  const Activations& a, const Workspace& w, ConstView grad_y,
                                  TallyEntry* tally, View grad_x) {
  const Sequences& sequences = rows.sequences;
  const int64_t length = sequences.length;
  const bool reads = shape_.ReadsQueriesAndKeys();
  output_.Backward(context, a.attended, grad_y, w.grad_attended);
  for (size_t i = 0; i < shape_.groups.size(); ++i) {
    const HeadGroup& group = shape_.groups[i];
    attention::Backward(
        CallOf(group, rows, a, context), a.traces[i],
        {.out = group.Outputs(a.attended, length),
         .grad_out = group.Outputs(w.grad_attended, length),
         .grad_q = reads ? group.SeenQueries(w.grad_q, w.grad_query_features, length) : View(),
         .grad_k = reads ? group.SeenKeys(w.grad_k, w.grad_key_features, length) : View(),
         .grad_v = group.Values(w.grad_v, length),
         .grad_log_decay = group.Forgets()
                               ? group.Decays(decay_->ByHead(w.decay.grad_log_decay, sequences))
                               : View()},
        tally, context);
  }
  ProjectHeadsBackward(context, a, w);
  if (reads && rows.rotary != nullptr) {
    rows.rotary->Rotate(context, sequences.length, /*back=*/true, w.grad_q);
    rows.rotary->Rotate(context, sequences.length, /*back=*/true, w.grad_k);
  }
  const View workspace = w.grad_convolved;
  if (reads) {
    query_.Backward(context, sequences, x, a.projected_q, w.grad_q, workspace, grad_x, false);
    key_.Backward(context, sequences, x, a.projected_k, w.grad_k, workspace, grad_x, true);
  }
  value_.Backward(context, sequences, x, a.projected_v, w.grad_v, workspace, grad_x, reads);
  if (decay_) decay_->Backward(context, sequences, x, a.decay, w.decay, grad_x);
}

void MultiHeadAttention::ProjectHeads(const Context& context, const Activations& a) const {
  for (size_t i = 0; i < features_.size(); ++i) {
    if (!features_[i]) continue;
    const HeadGroup& group = shape_.groups[i];
    features_[i]->queries.Forward(context, group.QueryColumns(a.q),
                                  group.QueryFeatureColumns(a.query_features));
    features_[i]->keys.Forward(context, group.KeyColumns(a.k),
                               group.KeyFeatureColumns(a.key_features));
  }
}

void MultiHeadAttention::ProjectHeadsBackward(const Context& context, const Activations& a,
                                              const Workspace& w) {
  for (size_t i = 0; i < features_.size(); ++i) {
    if (!features_[i]) continue;
    const HeadGroup& group = shape_.groups[i];
    features_[i]->queries.Backward(context, group.QueryColumns(a.q),
                                   group.QueryFeatureColumns(w.grad_query_features),
                                   group.QueryColumns(w.grad_q));
    features_[i]->keys.Backward(context, group.KeyColumns(a.k),
                                group.KeyFeatureColumns(w.grad_key_features),
                                group.KeyColumns(w.grad_k));
  }
}

}  // namespace favor::layers
