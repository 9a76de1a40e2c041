#include "layers/multi_head_attention.h"

#include <algorithm>

#include "attention/attend.h"
#include "favor/random.h"

namespace favor::layers {

MultiHeadAttention::MultiHeadAttention(ParameterSet& parameters, const std::string& name,
                                       const AttentionShape& shape, double output_gain)
    : shape_(shape),
      query_(MakeProjection(parameters, name + ".query", shape.query_columns)),
      key_(MakeProjection(parameters, name + ".key", shape.key_columns)),
      value_(MakeProjection(parameters, name + ".value", shape.value_columns)),
      output_(parameters, name + ".output", shape.output_columns, shape.width, output_gain) {}

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
  const Tensor joined = tail.Join(projected);
  Tensor convolved(joined.shape());
  const int64_t length = joined.shape()[0], rows = y.size(0);
  convolution->Forward(context, {.batch = 1, .length = length, .mask = {}}, joined, convolved);
  Copy(convolved.view().Range(0, length - rows, rows), y);
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
        FeaturePlan::Draw(group.options.features, group.heads, group.dim, own, redraw);
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
  return a;
}

MultiHeadAttention::Workspace MultiHeadAttention::ReserveWorkspace(Arena& arena, int64_t tokens,
                                                                   bool training) const {
  if (!training) return {};
  Workspace w{.grad_attended = arena.Take({tokens, shape_.output_columns}),
              .grad_q = arena.Take({tokens, shape_.query_columns}),
              .grad_k = arena.Take({tokens, shape_.key_columns}),
              .grad_v = arena.Take({tokens, shape_.value_columns}),
              .grad_convolved = {}};
  if (shape_.convolution > 0) {
    w.grad_convolved = arena.Take(
        {tokens, std::max({shape_.query_columns, shape_.key_columns, shape_.value_columns})});
  }
  return w;
}

int64_t MultiHeadAttention::TraceBytes(int64_t batch, int64_t length) const {
  int64_t bytes = 0;
  for (const HeadGroup& group : shape_.groups) {
    bytes += batch * group.heads * length * static_cast<int64_t>(sizeof(double)) +
             attention::FindKind(group.options.attention)
                 .TraceBytes({.batch = batch,
                              .heads = group.heads,
                              .kv_heads = group.kv_heads,
                              .dim = group.dim,
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
  return attention::CheckCall(
      {group.Queries(a.q, length), group.Keys(a.k, length), group.Values(a.v, length)}, options,
      context);
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
  if (rows.cache != nullptr) {
    rows.cache->Attend(context, a.q, a.k, a.v, tally, a.attended);
  } else {
    a.traces.clear();
    for (const HeadGroup& group : shape_.groups) {
      const attention::Call call = CallOf(group, rows, a, context);
      if (training) a.traces.emplace_back(call);
      attention::Forward(call,
                         {.out = group.Outputs(a.attended, sequences.length),
                          .trace = training ? &a.traces.back() : nullptr,
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
    attention::Backward(CallOf(group, rows, a, context), a.traces[i],
                        {.out = group.Outputs(a.attended, length),
                         .grad_out = group.Outputs(w.grad_attended, length),
                         .grad_q = reads ? group.Queries(w.grad_q, length) : View(),
                         .grad_k = reads ? group.Keys(w.grad_k, length) : View(),
                         .grad_v = group.Values(w.grad_v, length)},
                        tally, context);
  }
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
}

}  // namespace favor::layers
