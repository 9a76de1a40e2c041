#include "layers/multi_head_attention.h"

namespace favor::layers {
namespace {

// [batch·length, heads·dim] seen as [batch, heads, length, dim].
View AsHeads(const View& rows, int64_t batch, int64_t length, int64_t dim) {
  const int64_t columns = rows.size(1);
  return {rows.data(),
          rows.type(),
          {batch, columns / dim, length, dim},
          {length * columns, dim, columns, 1},
          rows.device()};
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(ParameterSet& parameters, const std::string& name,
                                       const AttentionShape& shape, const AttentionOptions& options,
                                       double output_gain)
    : shape_(shape),
      options_(options),
      query_(parameters, name + ".query", shape.width, shape.width),
      key_(parameters, name + ".key", shape.width, shape.kv_width()),
      value_(parameters, name + ".value", shape.width, shape.kv_width()),
      output_(parameters, name + ".output", shape.width, shape.width, output_gain) {}

void MultiHeadAttention::Redraw(uint64_t seed, uint64_t redraw) {
  if (options_.attention != "linear") return;
  options_.plan = FeaturePlan::Draw(options_.features, shape_.heads, shape_.dim(), seed, redraw);
}

MultiHeadAttention::Activations MultiHeadAttention::Plan(Arena& arena, int64_t tokens) const {
  return {.q = arena.Take({tokens, shape_.width}),
          .k = arena.Take({tokens, shape_.kv_width()}),
          .v = arena.Take({tokens, shape_.kv_width()}),
          .attended = arena.Take({tokens, shape_.width})};
}

MultiHeadAttention::Workspace MultiHeadAttention::PlanWorkspace(Arena& arena, int64_t tokens,
                                                                bool training) const {
  if (!training) return {};
  return {.grad_attended = arena.Take({tokens, shape_.width}),
          .grad_q = arena.Take({tokens, shape_.width}),
          .grad_k = arena.Take({tokens, shape_.kv_width()}),
          .grad_v = arena.Take({tokens, shape_.kv_width()})};
}

int64_t MultiHeadAttention::RecordBytes(int64_t batch, int64_t length) const {
  int64_t bytes = batch * shape_.heads * length * static_cast<int64_t>(sizeof(double));
  if (options_.attention == "linear" && !options_.causal && options_.plan) {
    // One state a head: S, z and c as pairs of floats or doubles.
    bytes += batch * shape_.heads * options_.plan->width() * (shape_.dim() + 2) *
             static_cast<int64_t>(sizeof(double));
  }
  return bytes;
}

AttentionOptions MultiHeadAttention::OptionsFor(const Rows& rows, DataType type) const {
  AttentionOptions options = options_;
  options.key_mask = rows.mask;
  options.reference = type == DataType::kF64;
  return options;
}

void MultiHeadAttention::Forward(const Context& context, const Rows& rows, ConstView x,
                                 Activations& a, bool training, View y) const {
  query_.Forward(context, x, a.q);
  key_.Forward(context, x, a.k);
  value_.Forward(context, x, a.v);
  if (rows.rotary != nullptr) {
    rows.rotary->Rotate(context, rows.length, /*back=*/false, a.q);
    rows.rotary->Rotate(context, rows.length, /*back=*/false, a.k);
  }
  const auto heads = [&](const View& view) {
    return AsHeads(view, rows.batch, rows.length, shape_.dim());
  };
  AttendInto(heads(a.q), heads(a.k), heads(a.v), OptionsFor(rows, x.type()), context,
             heads(a.attended), nullptr, training ? &a.record : nullptr);
  output_.Forward(context, a.attended, y);
}

void MultiHeadAttention::Backward(const Context& context, const Rows& rows, ConstView x,
                                  const Activations& a, const Workspace& w, ConstView grad_y,
                                  View grad_x) {
  output_.Backward(context, a.attended, grad_y, w.grad_attended);
  const auto heads = [&](const View& view) {
    return AsHeads(view, rows.batch, rows.length, shape_.dim());
  };
  AttendBackwardInto(heads(a.q), heads(a.k), heads(a.v), heads(a.attended), heads(w.grad_attended),
                     OptionsFor(rows, x.type()), context, &a.record, heads(w.grad_q),
                     heads(w.grad_k), heads(w.grad_v));
  if (rows.rotary != nullptr) {
    rows.rotary->Rotate(context, rows.length, /*back=*/true, w.grad_q);
    rows.rotary->Rotate(context, rows.length, /*back=*/true, w.grad_k);
  }
  query_.Backward(context, x, w.grad_q, grad_x);
  key_.Backward(context, x, w.grad_k, grad_x, /*add=*/true);
  value_.Backward(context, x, w.grad_v, grad_x, /*add=*/true);
}

}  // namespace favor::layers
