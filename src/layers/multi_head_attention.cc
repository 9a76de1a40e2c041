#include "layers/multi_head_attention.h"

#include <algorithm>

#include "attention/kinds.h"

namespace favor::layers {

MultiHeadAttention::MultiHeadAttention(ParameterSet& parameters, const std::string& name,
                                       const AttentionShape& shape, const AttentionOptions& options,
                                       double output_gain)
    : shape_(shape),
      options_(options),
      query_(MakeProjection(parameters, name + ".query", shape.width)),
      key_(MakeProjection(parameters, name + ".key", shape.kv_width())),
      value_(MakeProjection(parameters, name + ".value", shape.kv_width())),
      output_(parameters, name + ".output", shape.width, shape.width, output_gain) {}

MultiHeadAttention::Projection MultiHeadAttention::MakeProjection(ParameterSet& parameters,
                                                                  const std::string& name,
                                                                  int64_t columns) {
  Projection projection{.linear = Linear(parameters, name, shape_.width, columns),
                        .convolution = {}};
  if (shape_.convolution > 0)
    projection.convolution.emplace(parameters, name + "_convolution", shape_.convolution, columns,
                                   options_.causal);
  return projection;
}

void MultiHeadAttention::Projection::Forward(const Context& context, const Sequences& sequences,
                                             ConstView x, View projected, View y) const {
  if (!convolution) return linear.Forward(context, x, y);
  linear.Forward(context, x, projected);
  convolution->Forward(context, sequences, projected, y);
}

void MultiHeadAttention::Projection::Continue(const Context& context, ConstView x, View projected,
                                              RowTail& tail, View y) const {
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
  if (!attention::FindKind(options_.attention).takes_plan) return;
  options_.plan = FeaturePlan::Draw(options_.features, shape_.heads, shape_.dim(), seed, redraw);
}

MultiHeadAttention::Activations MultiHeadAttention::Plan(Arena& arena, int64_t tokens) const {
  Activations a{.q = arena.Take({tokens, shape_.width}),
                .k = arena.Take({tokens, shape_.kv_width()}),
                .v = arena.Take({tokens, shape_.kv_width()}),
                .attended = arena.Take({tokens, shape_.width})};
  if (shape_.convolution > 0) {
    a.projected_q = arena.Take({tokens, shape_.width});
    a.projected_k = arena.Take({tokens, shape_.kv_width()});
    a.projected_v = arena.Take({tokens, shape_.kv_width()});
  }
  return a;
}

MultiHeadAttention::Workspace MultiHeadAttention::PlanWorkspace(Arena& arena, int64_t tokens,
                                                                bool training) const {
  if (!training) return {};
  Workspace w{.grad_attended = arena.Take({tokens, shape_.width}),
              .grad_q = arena.Take({tokens, shape_.width}),
              .grad_k = arena.Take({tokens, shape_.kv_width()}),
              .grad_v = arena.Take({tokens, shape_.kv_width()}),
              .grad_convolved = {}};
  if (shape_.convolution > 0) w.grad_convolved = arena.Take({tokens, shape_.width});
  return w;
}

int64_t MultiHeadAttention::RecordBytes(int64_t batch, int64_t length) const {
  int64_t bytes = batch * shape_.heads * length * static_cast<int64_t>(sizeof(double));
  if (!attention::FindKind(options_.attention).takes_plan || options_.causal) return bytes;
  // One state a head: S, z and c in double.
  const auto map = std::ranges::find(Maps(), options_.features.map, &FeatureMapInfo::name);
  const int64_t columns = options_.features.features * (map == Maps().end() ? 1 : map->parts);
  return bytes +
         batch * shape_.heads * columns * (shape_.dim() + 2) * static_cast<int64_t>(sizeof(double));
}

AttentionOptions MultiHeadAttention::OptionsFor(const Rows& rows, DataType type) const {
  AttentionOptions options = options_;
  options.key_mask = rows.sequences.mask;
  options.reference = type == DataType::kF64;
  return options;
}

void MultiHeadAttention::Forward(const Context& context, const Rows& rows, ConstView x,
                                 Activations& a, bool training, View y) const {
  const Sequences& sequences = rows.sequences;
  AttentionMemory* memory = rows.memory;
  if (memory == nullptr) {
    query_.Forward(context, sequences, x, a.projected_q, a.q);
    key_.Forward(context, sequences, x, a.projected_k, a.k);
    value_.Forward(context, sequences, x, a.projected_v, a.v);
  } else {
    query_.Continue(context, x, a.projected_q, memory->query_tail(), a.q);
    key_.Continue(context, x, a.projected_k, memory->key_tail(), a.k);
    value_.Continue(context, x, a.projected_v, memory->value_tail(), a.v);
  }
  if (rows.rotary != nullptr) {
    rows.rotary->Rotate(context, sequences.length, /*back=*/false, a.q);
    rows.rotary->Rotate(context, sequences.length, /*back=*/false, a.k);
  }
  const auto heads = [&](const View& view) {
    return AsHeads(view, sequences.batch, sequences.length, shape_.dim());
  };
  if (memory != nullptr) {
    memory->Attend(context, a.q, a.k, a.v, a.attended);
  } else {
    AttendInto({heads(a.q), heads(a.k), heads(a.v)}, OptionsFor(rows, x.type()), context,
               heads(a.attended), {.record = training ? &a.record : nullptr});
  }
  output_.Forward(context, a.attended, y);
}

void MultiHeadAttention::Backward(const Context& context, const Rows& rows, ConstView x,
                                  const Activations& a, const Workspace& w, ConstView grad_y,
                                  View grad_x) {
  const Sequences& sequences = rows.sequences;
  output_.Backward(context, a.attended, grad_y, w.grad_attended);
  const auto heads = [&](const View& view) {
    return AsHeads(view, sequences.batch, sequences.length, shape_.dim());
  };
  AttendBackwardInto({.q = heads(a.q),
                      .k = heads(a.k),
                      .v = heads(a.v),
                      .out = heads(a.attended),
                      .grad_out = heads(w.grad_attended)},
                     OptionsFor(rows, x.type()), context, &a.record,
                     {heads(w.grad_q), heads(w.grad_k), heads(w.grad_v)});
  if (rows.rotary != nullptr) {
    rows.rotary->Rotate(context, sequences.length, /*back=*/true, w.grad_q);
    rows.rotary->Rotate(context, sequences.length, /*back=*/true, w.grad_k);
  }
  const View workspace = w.grad_convolved;
  query_.Backward(context, sequences, x, a.projected_q, w.grad_q, workspace, grad_x, false);
  key_.Backward(context, sequences, x, a.projected_k, w.grad_k, workspace, grad_x, true);
  value_.Backward(context, sequences, x, a.projected_v, w.grad_v, workspace, grad_x, true);
}

}  // namespace favor::layers
