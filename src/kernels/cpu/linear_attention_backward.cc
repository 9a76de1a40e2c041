// Gradients of linear attention of a whole call. Query heads that share keys take turns.
#include "kernels/linear_attention_backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/centring_gradients.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/linear_window.h"
#include "kernels/cpu/simd/linear_rows.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kKeyRows = 1536;  // rows of a key task: a multiple of the kernel's panel
// Gradients of ℓ are sums over the rows of a block: over more rows, what is rounded off adds up.
// Where states are so large that Blocks::kStateBytes allows only longer blocks, it does.
constexpr int64_t kMostScanned = 8192;

// The gradient of a number added to the logarithm of what each query of `adjoint` sees of each key
// of `state`.
double Between(const PrefixState& state, const PrefixState& adjoint) {
  if (state.IsEmpty() || adjoint.IsEmpty()) return 0;
  double total = 0;
  for (int64_t r = 0; r < state.width; ++r) {
    const auto i = static_cast<size_t>(r);
    const double *s = state.s + r * state.value_dim, *t = adjoint.s + r * state.value_dim;
    double sum = state.z[i] * adjoint.z[i];
    for (int64_t v = 0; v < state.value_dim; ++v) sum += s[v] * t[v];
    total += sum * std::exp(state.c[i] + adjoint.c[i]);
  }
  return total;
}

// Groups begin … end − 1 of one turn.
class TurnGroups {
 public:
  TurnGroups(const LinearGradients& arguments, int64_t turn, int64_t begin, int64_t end,
             const Context& context)
      : arguments_(arguments),
        problem_(arguments.call.problem),
        context_(context),
        turns_(problem_),
        turn_(turn),
        first_(begin),
        count_(end - begin) {}

  RowCounts Run(const Blocks& blocks) const {
    return problem_.causal ? RunCausal(blocks) : RunBidirectional(blocks);
  }

 private:
  int64_t Group(int64_t index) const { return turns_.Group(turn_, first_ + index); }
  LinearHead Head(int64_t index) const {
    return HeadOf(problem_, arguments_.heads, Group(index), context_);
  }
  HeadGradients Rows(int64_t index) const {
    return turns_.Rows(arguments_.call, turn_, first_ + index);
  }
  StateTensors MakeStates(const Blocks& blocks) const {
    return {count_ * blocks.count, arguments_.heads.features.width(), problem_.value_dim};
  }

  RowCounts RunBidirectional(const Blocks& blocks) const {
    const StateTensors adjoints = MakeStates(blocks);
    RowCounts counts = SumPieces(context_, count_ * blocks.count, [&](int64_t piece) {
      const int64_t index = piece / blocks.count, block = piece % blocks.count;
      const PrefixState state = arguments_.states.At(Group(index)),
                        adjoint = adjoints.views().At(piece);
      for (size_t r = 0; r < state.c.size() && !state.IsEmpty(); ++r) adjoint.c[r] = -state.c[r];
      return QueryGradients(Head(index), Rows(index), blocks.Rows(block, problem_.query_length),
                            state, adjoint);
    });
    ParallelFor(context_, count_, [&](int64_t index) {
      const int64_t first = index * blocks.count;
      for (int64_t block = 1; block < blocks.count; ++block)
        MergeInto(adjoints.views().At(first + block), adjoints.views().At(first));
    });
    const int64_t tasks = (problem_.key_length + kKeyRows - 1) / kKeyRows;
    return counts += SumPieces(context_, count_ * tasks, [&](int64_t piece) {
             const int64_t index = piece / tasks, begin = piece % tasks * kKeyRows;
             return KeyGradients(Head(index), Rows(index),
                                 {begin, std::min(problem_.key_length, begin + kKeyRows)},
                                 adjoints.views().At(index * blocks.count));
           });
  }

  RowCounts RunCausal(const Blocks& blocks) const {
    const int64_t length = problem_.query_length;
    const StateTensors states = MakeStates(blocks), adjoints = MakeStates(blocks);
    // Every block needs the keys before it and the queries after it.
    RowCounts counts = SumPieces(context_, count_ * (blocks.count - 1) * 2, [&](int64_t piece) {
      const int64_t job = piece / 2, index = job / (blocks.count - 1);
      const int64_t block = job % (blocks.count - 1) + (piece % 2 == 0 ? 0 : 1);
      const RowRange range = blocks.Rows(block, length);
      const int64_t at = index * blocks.count + block;
      if (piece % 2 == 0) return AppendKeys(Head(index), range, states.views().At(at));
      return AppendQueries(Head(index), Rows(index), range, adjoints.views().At(at));
    });
    ParallelFor(context_, count_ * 2, [&](int64_t piece) {
      const int64_t at = piece / 2 * blocks.count;
      if (piece % 2 == 0) {
        ScanStates(states.views().Range(at, blocks.count), Side::kBefore);
      } else {
        ScanStates(adjoints.views().Range(at, blocks.count), Side::kAfter);
      }
    });
    // Gradients of numbers added to all exponents of a row. Those of queries are 0 if normalised.
    const bool forgets = !arguments_.call.grad_log_decay.empty();
    const auto size = static_cast<size_t>(count_ * length);
    std::vector<double> of_queries(forgets && !problem_.normalize ? size : 0),
        of_keys(forgets ? size : 0);
    const auto part = [&](std::vector<double>& all, int64_t index) {
      return all.empty() ? nullptr : all.data() + index * length;
    };
    counts += SumPieces(context_, count_ * blocks.count * 2, [&](int64_t piece) {
      const int64_t job = piece / 2, index = job / blocks.count;
      const RowRange range = blocks.Rows(job % blocks.count, length);
      if (piece % 2 == 0)
        return CausalQueryGradients(Head(index), Rows(index), range, states.views().At(job),
                                    part(of_queries, index));
      return CausalKeyGradients(Head(index), Rows(index), range, adjoints.views().At(job),
                                part(of_keys, index));
    });
    if (!forgets) return counts;
    // ℓ of a row acts between the keys before it and the queries from it on. From row to row a
    // key joins the former and a query leaves the latter.
    return counts += SumPieces(context_, count_ * blocks.count, [&](int64_t job) {
             const int64_t index = job / blocks.count, block = job % blocks.count;
             const RowRange range = blocks.Rows(block, length);
             const HeadKeys keys = Head(index).keys;
             const View to = Rows(index).grad_log_decay;
             const double *query = part(of_queries, index), *key = part(of_keys, index);
             double gradient =
                 block == 0 ? 0 : Between(states.views().At(job), adjoints.views().At(job - 1));
             RowCounts unusable;
             for (int64_t row = range.begin; row < range.end; ++row) {
               SetElement(to, 0, row, keys.Exists(row) ? gradient : 0);
               unusable.unusable += std::isfinite(gradient) ? 0 : 1;
               gradient += key[row] - (query == nullptr ? 0 : query[row]);
             }
             return unusable;
           });
  }

  const LinearGradients& arguments_;
  const AttentionProblem& problem_;
  const Context& context_;
  Turns turns_;
  int64_t turn_, first_, count_;
};

}  // namespace

void LinearAttentionBackward(const LinearGradients& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  if (problem.window >= 0) return LinearWindowBackward(a, context);
  const Turns turns(problem);
  const int64_t state_bytes = PrefixState::Bytes(a.heads.features.width(), problem.value_dim);
  const int64_t sides = problem.causal ? 2 : 1;
  const Blocks blocks(problem.query_length, problem.causal, problem.Groups(), sides * state_bytes,
                      a.call.grad_log_decay.empty() ? problem.query_length : kMostScanned);
  const int64_t at_a_time =
      std::max<int64_t>(1, Blocks::kStateBytes / (blocks.count * sides * state_bytes));
  RowCounts counts;
  for (int64_t turn = 0; turn < turns.count; ++turn) {
    for (int64_t first = 0; first < turns.groups; first += at_a_time) {
      const int64_t last = std::min(turns.groups, first + at_a_time);
      counts += TurnGroups(a, turn, first, last, context).Run(blocks);
    }
  }
  counts.AddTo(*a.call.tally);
  if (!a.heads.key_mean.empty()) CentringGradients(a, context);
}

}  // namespace favor::kernels::cpu
