#include "kernels/cpu/stairs.h"

#include <algorithm>

#include "kernels/cpu/simd/linear_rows.h"
#include "kernels/prefix_state.h"

namespace favor::kernels::cpu {
namespace {

// Rows of the range, in the stair's order.
template <class AnyView>
AnyView InOrder(const AnyView& rows, RowRange range, bool reversed) {
  if (rows.empty()) return rows;
  const AnyView part = rows.Range(0, range.begin, range.count());
  if (!reversed || range.count() == 0) return part;
  const AnyView last = part.Range(0, range.count() - 1, 1);
  return {last.data(), part.type(), part.shape(), {-part.stride(0), part.stride(1)}, part.device()};
}

// The same of numbers, one per row; null stays null.
template <class T>
class NumbersInOrder {
 public:
  NumbersInOrder(const T* numbers, RowRange range, bool reversed)
      : data_(numbers == nullptr ? nullptr : numbers + range.begin) {
    if (data_ == nullptr || !reversed) return;
    own_.assign(numbers + range.begin, numbers + range.end);
    std::ranges::reverse(own_);
    data_ = own_.data();
  }
  const T* data() const { return data_; }

 private:
  const T* data_;
  std::vector<T> own_;
};

// The three parts of a stair: keys before the first query's step, rows side by side, and queries
// behind the last key. Each head has the rows that its part reads, from 0 on.
class StairRows {
 public:
  StairRows(const LinearHead& head, const Stair& stair)
      : mask_(head.keys.mask, stair.keys, stair.reversed),
        lead(std::min(stair.lead, stair.keys.count())),
        together(std::clamp<int64_t>(stair.keys.count() - stair.lead, 0, stair.queries.count())),
        all(head),
        side_by_side(head) {
    all.queries.queries = InOrder(head.queries.queries, stair.queries, stair.reversed);
    all.keys.keys = InOrder(head.keys.keys, stair.keys, stair.reversed);
    all.keys.values = InOrder(head.keys.values, stair.keys, stair.reversed);
    all.keys.mask = mask_.data();
    side_by_side.queries.queries = all.queries.queries.Range(0, 0, together);
    side_by_side.keys.keys = all.keys.keys.Range(0, lead, together);
    side_by_side.keys.values = all.keys.values.Range(0, lead, together);
    side_by_side.keys.mask = mask_.data() == nullptr ? nullptr : mask_.data() + lead;
  }
  StairRows(const StairRows&) = delete;
  StairRows& operator=(const StairRows&) = delete;

 private:
  NumbersInOrder<float> mask_;

 public:
  const int64_t lead, together;
  LinearHead all, side_by_side;
};

}  // namespace

RowCounts StairSums::Read(const LinearHead& head, const Stair& stair) {
  const StairRows rows(head, stair);
  const int64_t queries = stair.queries.count();
  const StateTensors states(1, head.features.width, value_dim_);
  const PrefixState state = states.views().At(0);
  const HeadOutput out{.output = {},
                       .log_scale = log_scale_.data(),
                       .numerator = numerator_.data(),
                       .denominator = denominator_.data()};
  RowCounts counts;
  if (rows.lead > 0) counts += AppendKeys(rows.all, {0, rows.lead}, state);
  if (rows.together > 0) counts += Causal(rows.side_by_side, {0, rows.together}, state, out);
  if (rows.together < queries)
    counts += ReadQueries(rows.all, {rows.together, queries}, state, out);
  return counts;
}

RowCounts StairGradients(const LinearHead& head, const HeadGradients& gradients,
                         const Stair& stair) {
  const StairRows rows(head, stair);
  const int64_t queries = stair.queries.count();
  const NumbersInOrder<double> log_sum(gradients.log_sum, stair.queries, stair.reversed),
      delta(gradients.delta, stair.queries, stair.reversed);
  HeadGradients all = gradients;
  all.grad_output = InOrder(gradients.grad_output, stair.queries, stair.reversed);
  all.log_sum = log_sum.data();
  all.delta = delta.data();
  all.grad_queries = InOrder(gradients.grad_queries, stair.queries, stair.reversed);
  all.grad_keys = InOrder(gradients.grad_keys, stair.keys, stair.reversed);
  all.grad_values = InOrder(gradients.grad_values, stair.keys, stair.reversed);
  HeadGradients side_by_side = all;
  const auto behind_lead = [&](const View& grad) {
    return grad.empty() ? grad : grad.Range(0, rows.lead, rows.together);
  };
  side_by_side.grad_keys = behind_lead(all.grad_keys);
  side_by_side.grad_values = behind_lead(all.grad_values);

  const StateTensors states(2, head.features.width, head.keys.values.size(1));
  const PrefixState state = states.views().At(0), adjoint = states.views().At(1);
  const RowRange together{0, rows.together}, behind{rows.together, queries};
  RowCounts counts;
  if (rows.lead > 0) counts += AppendKeys(rows.all, {0, rows.lead}, state);
  if (rows.together > 0)
    counts += CausalQueryGradients(rows.side_by_side, side_by_side, together, state, nullptr);
  if (behind.count() > 0) {
    if (rows.together > 0) counts += AppendKeys(rows.side_by_side, together, state);
    for (size_t r = 0; r < state.c.size() && !state.IsEmpty(); ++r) adjoint.c[r] = -state.c[r];
    counts += QueryGradients(rows.all, all, behind, state, adjoint);
  }
  if (rows.together > 0)
    counts += CausalKeyGradients(rows.side_by_side, side_by_side, together, adjoint, nullptr);
  if (rows.lead > 0) {
    if (rows.together > 0)
      counts += AppendQueries(rows.side_by_side, side_by_side, together, adjoint);
    counts += KeyGradients(rows.all, all, {0, rows.lead}, adjoint);
  }
  return counts;
}

}  // namespace favor::kernels::cpu
