#include "kernels/cpu/linear_window.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "kernels/centring_gradients.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd/band_rows.h"
#include "kernels/cpu/stairs.h"
#include "kernels/output_row.h"
#include "kernels/sum_rows.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kBandRows = 48;  // rows of a band's tile
constexpr int64_t kTaskRows = 4 * kBandRows;

// Queries of `length` places from `before` on, and all keys.
//
// Keys are cut into blocks of `rows` = window + ahead + 1, where `ahead` is how far a query sees
// beyond its own place; the first block begins `window` places before the first. The window of the
// query at place n·rows + r then is the keys of block n from its r-th on, and the first r keys of
// block n + 1.
struct WindowCut {
  explicit WindowCut(const AttentionProblem& problem)
      : before(problem.before),
        keys(problem.key_length),
        window(problem.window),
        ahead(problem.causal ? 0 : problem.window),
        rows(window + ahead + 1),
        first(before / rows),
        count(problem.query_length == 0 ? 0
                                        : (before + problem.query_length - 1) / rows + 1 - first),
        end(before + problem.query_length) {}

  // Places of block `index` of queries.
  RowRange Places(int64_t index) const {
    const int64_t begin = (first + index) * rows;
    return {std::max(begin, before), std::min(begin + rows, end)};
  }
  // Keys of block n of those that queries of block `index` see: n is index or index + 1.
  RowRange Keys(int64_t block) const {
    const int64_t begin = (first + block) * rows - window;
    return {std::clamp<int64_t>(begin, 0, keys), std::clamp<int64_t>(begin + rows, 0, keys)};
  }
  RowRange Queries(RowRange places) const { return {places.begin - before, places.end - before}; }

  // The end of block `index` of keys, from the last key to the first.
  Stair Ends(int64_t index) const {
    const RowRange places = Places(index), seen = Keys(index);
    return {.queries = Queries(places),
            .keys = seen,
            .lead = seen.end - places.end + window,
            .reversed = true};
  }
  // The beginning of the next block; the first query of a block sees none of it.
  Stair Beginnings(int64_t index) const {
    const RowRange places = Places(index), seen = Keys(index + 1);
    const int64_t begin = std::min(places.end, std::max(places.begin, (first + index) * rows + 1));
    return {.queries = Queries({begin, places.end}),
            .keys = seen,
            .lead = begin + ahead - ((first + index + 1) * rows - window)};
  }

  int64_t before, keys, window, ahead, rows, first, count, end;
};

bool IsNarrow(const AttentionProblem& problem) {
  const int64_t sides = problem.causal ? 1 : 2;
  return problem.window <= kWidestBand / sides;
}

Band BandOf(const AttentionProblem& problem) {
  return {.before = problem.before,
          .behind = problem.window,
          .ahead = problem.causal ? 0 : problem.window};
}

RowCounts Windows(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const WindowCut cut(problem);
  return SumPieces(context, problem.Groups() * cut.count, [&](int64_t piece) {
    const int64_t group = piece / cut.count, index = piece % cut.count;
    const LinearHead head = HeadOf(problem, a.heads, group, context);
    const HeadOutput out = OutputOf(a, group);
    const Stair ends = cut.Ends(index), beginnings = cut.Beginnings(index);
    StairSums of_ends(ends.queries.count(), problem.value_dim),
        of_beginnings(beginnings.queries.count(), problem.value_dim);
    RowCounts counts = of_ends.Read(head, ends);
    if (beginnings.queries.count() > 0 && beginnings.keys.count() > 0)
      counts += of_beginnings.Read(head, beginnings);
    std::vector<double> sum(static_cast<size_t>(problem.value_dim));
    for (int64_t row = ends.queries.begin; row < ends.queries.end; ++row) {
      const int64_t t = ends.queries.end - 1 - row, u = row - beginnings.queries.begin;
      const std::array<SumRow, 2> parts = {
          SumRow{of_ends.LogScale(t), of_ends.Denominator(t), of_ends.Numerator(t)},
          u < 0 || beginnings.keys.count() == 0
              ? SumRow{}
              : SumRow{of_beginnings.LogScale(u), of_beginnings.Denominator(u),
                       of_beginnings.Numerator(u)}};
      counts += StoreSum(out, row, parts, sum);
    }
    return counts;
  });
}

RowCounts Bands(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const int64_t tasks = (problem.query_length + kTaskRows - 1) / kTaskRows;
  return SumPieces(context, problem.Groups() * tasks, [&](int64_t piece) {
    const int64_t group = piece / tasks, begin = piece % tasks * kTaskRows;
    return BandRows(HeadOf(problem, a.heads, group, context), BandOf(problem),
                    {begin, std::min(problem.query_length, begin + kTaskRows)}, kBandRows,
                    OutputOf(a, group));
  });
}

// A causal problem of the keys that lie more than the window behind the query, or ahead of it: rows
// side by side.
class FarSide {
 public:
  FarSide(const AttentionProblem& problem, bool ahead)
      : ahead_(ahead),
        skipped_(problem.window + 1),
        count_(std::max<int64_t>(0, problem.key_length - skipped_)),
        problem_(problem) {
    problem_.window = -1;
    problem_.beyond = false;
    problem_.causal = true;
    problem_.query_length = problem_.key_length = count_;
    if (count_ == 0) return;
    problem_.q = Queries(problem.q);
    problem_.k = Keys(problem.k);
    problem_.v = Keys(problem.v);
    if (problem.mask.empty()) return;
    if (!ahead) {
      problem_.mask = problem.mask.Range(2, 0, count_);
      return;
    }
    mask_ = Tensor({problem.batch, problem.kv_heads, count_});
    Copy(Keys(problem.mask), mask_.view());
    problem_.mask = std::as_const(mask_).view();
  }
  FarSide(const FarSide&) = delete;
  FarSide& operator=(const FarSide&) = delete;

  int64_t count() const { return count_; }
  const AttentionProblem& problem() const { return problem_; }
  // The rows of queries and of keys, axis 2, in the order of the problem.
  template <class AnyView>
  AnyView Queries(const AnyView& all) const {
    return ahead_ ? Reversed(all.Range(2, 0, count_)) : all.Range(2, skipped_, count_);
  }
  template <class AnyView>
  AnyView Keys(const AnyView& all) const {
    return ahead_ ? Reversed(all.Range(2, skipped_, count_)) : all.Range(2, 0, count_);
  }
  // Numbers of queries, f64 [groups, length], likewise.
  Tensor OfQueries(const ConstView& all) const {
    Tensor numbers({all.size(0), count_}, DataType::kF64);
    for (int64_t group = 0; group < all.size(0); ++group) {
      const double* from = all.At(group).Data<double>() + (ahead_ ? 0 : skipped_);
      double* to = numbers.view().At(group).Data<double>();
      std::copy_n(from, count_, to);
      if (ahead_) std::reverse(to, to + count_);
    }
    return numbers;
  }
  // Where row `row` of the whole call is among the queries here; negative or ≥ count: it is not.
  int64_t Place(int64_t row) const { return ahead_ ? count_ - 1 - row : row - skipped_; }

 private:
  template <class AnyView>
  static AnyView Reversed(const AnyView& rows) {
    Strides strides = rows.strides();
    strides[2] = -strides[2];
    return {rows.Range(2, rows.size(2) - 1, 1).data(), rows.type(), rows.shape(), strides,
            rows.device()};
  }

  bool ahead_;
  int64_t skipped_, count_;
  AttentionProblem problem_;
  Tensor mask_;
};

// Sums over the keys of one far side.
class FarSums {
 public:
  FarSums(const LinearArguments& a, bool ahead, const Context& context)
      : side_(a.call.problem, ahead),
        log_scale_({side_.problem().Groups(), side_.count()}, DataType::kF64),
        denominator_(log_scale_.shape(), DataType::kF64),
        numerator_({side_.problem().Groups(), side_.count(), side_.problem().value_dim},
                   DataType::kF64) {
    if (side_.count() == 0) return;
    LinearAttention({.call = {.problem = side_.problem(),
                              .out = {},
                              .log_sum = {},
                              .tally = a.call.tally,
                              .parts = {.log_scale = log_scale_,
                                        .numerator = numerator_,
                                        .denominator = denominator_}},
                     .heads = a.heads},
                    context);
  }
  SumRow Row(int64_t group, int64_t row) const {
    const int64_t place = side_.Place(row);
    if (place < 0 || place >= side_.count()) return {};
    const int64_t at = group * side_.count() + place;
    return {log_scale_.Data<double>()[at], denominator_.Data<double>()[at],
            numerator_.Data<double>() + at * side_.problem().value_dim};
  }

 private:
  FarSide side_;
  Tensor log_scale_, denominator_, numerator_;
};

RowCounts Beyond(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  std::vector<std::unique_ptr<const FarSums>> sides;
  sides.push_back(std::make_unique<const FarSums>(a, /*ahead=*/false, context));
  if (!problem.causal) sides.push_back(std::make_unique<const FarSums>(a, /*ahead=*/true, context));
  return SumPieces(context, problem.Groups(), [&](int64_t group) {
    const HeadOutput out = OutputOf(a, group);
    std::vector<double> total(static_cast<size_t>(problem.value_dim));
    std::vector<SumRow> parts(sides.size());
    RowCounts counts;
    for (int64_t row = 0; row < problem.query_length; ++row) {
      for (size_t i = 0; i < sides.size(); ++i) parts[i] = sides[i]->Row(group, row);
      counts += StoreSum(out, row, parts, total);
    }
    return counts;
  });
}

// Block n of the keys meets block n of the queries in a first pass and block n − 1 in a second one:
// within a pass every row has one writer.
RowCounts WindowGradients(const LinearGradients& a, const Turns& turns, int64_t turn,
                          const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const WindowCut cut(problem);
  const auto pass = [&](bool second) {
    return SumPieces(context, turns.groups * cut.count, [&](int64_t piece) {
      const int64_t index = piece / cut.count, block = piece % cut.count;
      HeadGradients rows = turns.Rows(a.call, turn, index);
      const Stair stair = second ? cut.Beginnings(block) : cut.Ends(block);
      if (stair.queries.count() == 0 || stair.keys.count() == 0) return RowCounts{};
      rows.add_to_queries = second;
      // The last block of keys may have met no queries in the first pass.
      rows.add_to_keys = rows.add_to_keys || (second && block + 1 < cut.count);
      return StairGradients(HeadOf(problem, a.heads, turns.Group(turn, index), context), rows,
                            stair);
    });
  };
  RowCounts counts = pass(/*second=*/false);
  return counts += pass(/*second=*/true);
}

RowCounts BandGradients(const LinearGradients& a, const Turns& turns, int64_t turn,
                        const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const int64_t tasks = (problem.query_length + kTaskRows - 1) / kTaskRows;
  return SumPieces(context, 2 * turns.groups * tasks, [&](int64_t piece) {
    const int64_t job = piece / 2, index = job / tasks, begin = job % tasks * kTaskRows;
    const RowRange range{begin, std::min(problem.query_length, begin + kTaskRows)};
    const LinearHead head = HeadOf(problem, a.heads, turns.Group(turn, index), context);
    const HeadGradients rows = turns.Rows(a.call, turn, index);
    return piece % 2 == 0 ? BandQueryGradients(head, BandOf(problem), rows, range, kBandRows)
                          : BandKeyGradients(head, BandOf(problem), rows, range, kBandRows);
  });
}

// Gradients of one far side: those of a causal problem, added to what the arrays hold.
void FarGradients(const LinearGradients& a, const FarSide& side, const Context& context) {
  if (side.count() == 0) return;
  const Tensor log_sum = side.OfQueries(a.call.log_sum), delta = side.OfQueries(a.call.delta);
  LinearAttentionBackward({.call = {.problem = side.problem(),
                                    .out = side.Queries(a.call.out),
                                    .grad_out = side.Queries(a.call.grad_out),
                                    .log_sum = log_sum,
                                    .delta = delta,
                                    .grad_q = side.Queries(a.call.grad_q),
                                    .grad_k = side.Keys(a.call.grad_k),
                                    .grad_v = side.Keys(a.call.grad_v),
                                    .grad_log_decay = {},
                                    .tally = a.call.tally,
                                    .add = true},
                           .heads = a.heads},
                          context);
}

}  // namespace

void LinearWindow(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const RowCounts counts = problem.beyond      ? Beyond(a, context)
                           : IsNarrow(problem) ? Bands(a, context)
                                               : Windows(a, context);
  counts.AddTo(*a.call.tally);
}

void LinearWindowBackward(const LinearGradients& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  if (problem.beyond) {
    FarGradients(a, FarSide(problem, /*ahead=*/false), context);
    if (!problem.causal) FarGradients(a, FarSide(problem, /*ahead=*/true), context);
    return;
  }
  const Turns turns(problem);
  RowCounts counts;
  for (int64_t turn = 0; turn < turns.count; ++turn)
    counts += IsNarrow(problem) ? BandGradients(a, turns, turn, context)
                                : WindowGradients(a, turns, turn, context);
  counts.AddTo(*a.call.tally);
  if (!a.heads.key_mean.empty()) CentringGradients(a, context);
}

}  // namespace favor::kernels::cpu
