#include "experiments/contestant.h"

#include <algorithm>

namespace favor::experiments {
namespace {

// Every token as f32, in order; `factor` times its row, or times the sum of its row if X is of
// ones.
Tensor AsTensor(const Rows& rows, const std::vector<int64_t>& order, Between between,
                double factor) {
  const int64_t columns = rows.columns, width = between == Between::kIdentity ? columns : 1;
  Tensor tensor({std::ssize(order), width});
  float* out = tensor.Data<float>();
  for (const int64_t kind : order) {
    const double* values = rows[kind];
    if (between == Between::kIdentity) {
      for (int64_t i = 0; i < columns; ++i) *out++ = static_cast<float>(factor * values[i]);
    } else {
      double sum = 0;
      for (int64_t i = 0; i < columns; ++i) sum += values[i];
      *out++ = static_cast<float>(factor * sum);
    }
  }
  return tensor;
}

}  // namespace

bool Contestant::IsLinear() const {
  return std::ranges::any_of(AttentionKinds(), [&](const AttentionKindInfo& kind) {
    return kind.name == attention.attention && kind.takes_plan;
  });
}

bool Contestant::IsDrawn() const {
  return IsLinear() && FindMap(attention.features.map).is_random &&
         attention.features.projection != "none";
}

int64_t Contestant::Width(const TokenData& data, Between between) const {
  if (!IsLinear()) return 0;
  const int64_t dim = between == Between::kIdentity ? data.keys.rows.columns : 1;
  return FeaturePlan::Draw(attention.features, 1, dim, 0).width();
}

Rows OutputsBy(const Contestant& contestant, const TokenData& data, Between between,
               uint64_t redraw, const Context& context) {
  const TokenData seen = contestant.on_span ? OnSpanOfKeys(data) : data;
  const Tensor q = AsTensor(seen.queries.rows, seen.queries.order, between, contestant.gain),
               k = AsTensor(seen.keys.rows, seen.keys.order, between, 1 / contestant.gain),
               v = AsTensor(seen.values, seen.keys.order, Between::kIdentity, 1);
  AttentionOptions options = contestant.attention;
  options.scale = 1;
  if (contestant.IsLinear())
    options.plan = FeaturePlan::Draw(options.features, 1, k.shape()[1], context.seed(), redraw);
  const Tensor out = Attend(q, k, v, options, context);
  Rows outputs{.columns = data.values.columns, .values = {}};
  outputs.values.assign(out.Data<float>(), out.Data<float>() + out.shape().Elements());
  return outputs;
}

}  // namespace favor::experiments
