#include "layers/multi_head_attention.h"

#include <array>
#include <numeric>

#include "attention/attend.h"
#include "favor/random.h"

namespace favor::layers {
MultiHeadAttention::MultiHeadAttention(ParameterSet& parameters, const std::string& name,
                                       const AttentionShape& shape, double output_gain)
    : shape_(shape),
      projection_(parameters, shape.Projections(name + ".", ""), shape.width),
      output_(parameters, name + ".output", shape.output_columns, shape.width, output_gain) {
  if (shape.convolution > 0) {
    convolution_.emplace(parameters, shape.Projections(name + ".", "_convolution"),
                         shape.convolution, shape.groups[0].options.causal);
  }
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

void MultiHeadAttention::Project(const Context& context, const Rows& rows, ConstView x,
                                 const Activations& a) const {
  const View to = Read(a.rows);
  if (!convolution_) return projection_.Forward(context, x, to, FirstPart());
  const View projected = Read(a.projected);
  projection_.Forward(context, x, projected, FirstPart());
  if (rows.cache == nullptr)
    return convolution_->Forward(context, rows.sequences, projected, to, FirstPart());
  Tail& tail = rows.cache->tail();
  convolution_->Continue(context, rows.sequences, tail.rows(), projected, to, FirstPart());
  tail.Append(context, projected);
}

void MultiHeadAttention::ProjectBackward(const Context& context, const Rows& rows, ConstView x,
                                         const Activations& a, const Workspace& w, View grad_x) {
  View grad = Read(w.grad_rows);
  if (convolution_) {
    const View grad_projected = Read(w.grad_projected);
    convolution_->Backward(context, rows.sequences, Read(a.projected), grad, grad_projected,
                           FirstPart());
    grad = grad_projected;
  }
  projection_.Backward(context, x, grad, grad_x, FirstPart());
}

void MultiHeadAttention::Rotate(const Context& context, const Rows& rows, bool back,
                                const Columns& columns) const {
  if (rows.rotary == nullptr || !shape_.ReadsQueriesAndKeys()) return;
  rows.rotary->Rotate(context, rows.first, rows.sequences.length, back,
                      columns.all.Range(1, 0, shape_.query_columns + shape_.key_columns));
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

MultiHeadAttention::Columns MultiHeadAttention::ReserveColumns(Arena& arena, int64_t tokens) const {
  const std::array counts = {shape_.query_columns, shape_.key_columns, shape_.value_columns};
  Columns columns{
      .all = arena.Take({tokens, std::accumulate(counts.begin(), counts.end(), int64_t{0})})};
  int64_t first = 0;
  for (size_t part = 0; part < kParts; ++part) {
    columns.part[part] = columns.all.Range(1, first, counts[part]);
    first += counts[part];
  }
  return columns;
}

View MultiHeadAttention::Read(const Columns& columns) const {
  const int64_t unread = FirstPart() == kQueries ? 0 : shape_.query_columns + shape_.key_columns;
  return columns.all.Range(1, unread, columns.all.size(1) - unread);
}

MultiHeadAttention::Activations MultiHeadAttention::Reserve(Arena& arena, int64_t tokens) const {
  Activations a{.rows = ReserveColumns(arena, tokens),
                .attended = arena.Take({tokens, shape_.output_columns})};
  if (convolution_) a.projected = ReserveColumns(arena, tokens);
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
              .grad_rows = ReserveColumns(arena, tokens)};
  if (convolution_) w.grad_projected = ReserveColumns(arena, tokens);
  if (shape_.query_feature_columns > 0) {
    w.grad_query_features = arena.Take({tokens, shape_.query_feature_columns});
    w.grad_key_features = arena.Take({tokens, shape_.key_feature_columns});
  }
  if (decay_) w.decay = decay_->ReserveWorkspace(arena, tokens);
  return w;
}

int64_t MultiHeadAttention::TraceBytes(int64_t batch, int64_t length, DataType type,
                                       const Device& device) const {
  const int64_t row = ItemBytes(attention::RowTypeOn(device));
  int64_t bytes = 0;
  for (const HeadGroup& group : shape_.groups) {
    const attention::CacheShape shape = CacheShapeOf(group, batch, type, device);
    bytes += batch * group.heads * length * row +
             attention::FindKind(group.options.attention).TraceBytes(shape, length, group.options);
  }
  return bytes;
}

attention::Call MultiHeadAttention::CallOf(const HeadGroup& group, const Rows& rows,
                                           const Activations& a, const Context& context) const {
  AttentionOptions options = group.options;
  options.key_mask = rows.sequences.mask;
  const auto& [q, k, v] = a.rows.part;
  options.reference = q.type() == DataType::kF64;
  const int64_t length = rows.sequences.length;
  if (group.Forgets())
    options.log_decay = group.Decays(decay_->ByHead(a.decay.log_decay, rows.sequences));
  return attention::CheckCall({group.SeenQueries(q, a.query_features, length),
                               group.SeenKeys(k, a.key_features, length), group.Values(v, length)},
                              options, context, attention::MarksFrom::kModel);
}

void MultiHeadAttention::Forward(const Context& context, const Rows& rows, ConstView x,
                                 Activations& a, bool training, TallyEntry* tally,
                                 const kernels::MatmulEpilogue& then, View y) const {
  const Sequences& sequences = rows.sequences;
  Project(context, rows, x, a);
  Rotate(context, rows, /*back=*/false, a.rows);
  ProjectHeads(context, a);
  if (decay_) decay_->Forward(context, sequences, x, a.decay, tally);
  if (rows.cache != nullptr) {
    rows.cache->Attend(
        context,
        {.q = a.rows.part[kQueries],
         .k = a.rows.part[kKeys],
         .v = a.rows.part[kValues],
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
  const auto& [grad_q, grad_k, grad_v] = w.grad_rows.part;
  output_.Backward(context, a.attended, grad_y, w.grad_attended);
  for (size_t i = 0; i < shape_.groups.size(); ++i) {
    const HeadGroup& group = shape_.groups[i];
    attention::Backward(
        CallOf(group, rows, a, context), a.traces[i],
        {.out = group.Outputs(a.attended, length),
         .grad_out = group.Outputs(w.grad_attended, length),
         .grad_q = reads ? group.SeenQueries(grad_q, w.grad_query_features, length) : View(),
         .grad_k = reads ? group.SeenKeys(grad_k, w.grad_key_features, length) : View(),
         .grad_v = group.Values(grad_v, length),
         .grad_log_decay = group.Forgets()
                               ? group.Decays(decay_->ByHead(w.decay.grad_log_decay, sequences))
                               : View()},
        tally, context);
  }
  ProjectHeadsBackward(context, a, w);
  Rotate(context, rows, /*back=*/true, w.grad_rows);
  ProjectBackward(context, rows, x, a, w, grad_x);
  if (decay_) decay_->Backward(context, sequences, x, a.decay, w.decay, grad_x);
}

void MultiHeadAttention::ProjectHeads(const Context& context, const Activations& a) const {
  for (size_t i = 0; i < features_.size(); ++i) {
    if (!features_[i]) continue;
    const HeadGroup& group = shape_.groups[i];
    features_[i]->queries.Forward(context, group.QueryColumns(a.rows.part[kQueries]),
                                  group.QueryFeatureColumns(a.query_features));
    features_[i]->keys.Forward(context, group.KeyColumns(a.rows.part[kKeys]),
                               group.KeyFeatureColumns(a.key_features));
  }
}

void MultiHeadAttention::ProjectHeadsBackward(const Context& context, const Activations& a,
                                              const Workspace& w) {
  for (size_t i = 0; i < features_.size(); ++i) {
    if (!features_[i]) continue;
    const HeadGroup& group = shape_.groups[i];
    features_[i]->queries.Backward(context, group.QueryColumns(a.rows.part[kQueries]),
                                   group.QueryFeatureColumns(w.grad_query_features),
                                   group.QueryColumns(w.grad_rows.part[kQueries]));
    features_[i]->keys.Backward(context, group.KeyColumns(a.rows.part[kKeys]),
                                group.KeyFeatureColumns(w.grad_key_features),
                                group.KeyColumns(w.grad_rows.part[kKeys]));
  }
}

}  // namespace favor::layers
