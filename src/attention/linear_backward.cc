// Gradients of linear attention over batches and heads. Query heads that share keys take turns.
#include <algorithm>
#include <vector>

#include "attention/blocks.h"
#include "attention/kinds.h"
#include "attention/linear_heads.h"
#include "attention/record.h"
#include "core/element.h"
#include "core/parallel.h"
#include "kernels/linear_kernels.h"

namespace favor::attention {
namespace {

using kernels::GradientRows;
using kernels::LinearHead;
using kernels::PrefixState;
using kernels::RowCounts;

constexpr int64_t kKeyRows = 1536;  // rows of a key task: a multiple of the kernel's panel

class LinearBackwardCall {
 public:
  LinearBackwardCall(const BackwardCall& call, const kernels::LinearKernels& kernels)
      : call_(call),
        problem_(call.problem),
        context_(call.context),
        kernels_(kernels),
        width_(call.record.heads[0].features->Width()),
        state_bytes_(PrefixState::Bytes(width_, problem_.value_dim)) {}

  RowCounts Run() {
    const Blocks blocks(problem_.query_length, problem_.causal, problem_.Groups(),
                        (problem_.causal ? 2 : 1) * state_bytes_);
    const int64_t states = blocks.count * (problem_.causal ? 2 : 1);
    const int64_t at_a_time = std::max<int64_t>(1, Blocks::kStateBytes / (states * state_bytes_));
    RowCounts counts;
    for (int64_t turn = 0; turn < call_.Turns(); ++turn) {
      for (int64_t first = 0; first < call_.GroupsOfTurn(); first += at_a_time) {
        const int64_t last = std::min(call_.GroupsOfTurn(), first + at_a_time);
        counts += problem_.causal ? Causal(turn, first, last, blocks)
                                  : Bidirectional(turn, first, last, blocks);
      }
    }
    return counts;
  }

 private:
  LinearHead Head(int64_t turn, int64_t index) const {
    const int64_t group = call_.Group(turn, index);
    return MakeLinearHead(problem_, group, call_.record.heads[static_cast<size_t>(group)],
                          context_);
  }

  RowCounts Bidirectional(int64_t turn, int64_t first, int64_t last, const Blocks& blocks) {
    std::vector<PrefixState> adjoints(static_cast<size_t>((last - first) * blocks.count));
    RowCounts counts = Sum((last - first) * blocks.count, [&](int64_t piece) {
      const int64_t index = first + piece / blocks.count, block = piece % blocks.count;
      const PrefixState& state = call_.record.states[static_cast<size_t>(call_.Group(turn, index))];
      PrefixState& adjoint = adjoints[static_cast<size_t>(piece)];
      adjoint = PrefixState(width_, problem_.value_dim);
      for (size_t r = 0; r < state.c.size() && !state.IsEmpty(); ++r) adjoint.c[r] = -state.c[r];
      return kernels_.query_gradients(Head(turn, index), call_.Rows(turn, index),
                                      blocks.Rows(block, problem_.query_length), state, adjoint);
    });
    ParallelFor(context_, last - first, [&](int64_t i) {
      PrefixState* adjoint = adjoints.data() + i * blocks.count;
      for (int64_t block = 1; block < blocks.count; ++block)
        kernels::MergeInto(adjoint[block], adjoint[0]);
    });
    const int64_t tasks = (problem_.key_length + kKeyRows - 1) / kKeyRows;
    return counts += Sum((last - first) * tasks, [&](int64_t piece) {
             const int64_t index = first + piece / tasks, begin = piece % tasks * kKeyRows;
             return kernels_.key_gradients(
                 Head(turn, index), call_.Rows(turn, index),
                 {begin, std::min(problem_.key_length, begin + kKeyRows)},
                 adjoints[static_cast<size_t>(piece / tasks * blocks.count)]);
           });
  }

  RowCounts Causal(int64_t turn, int64_t first, int64_t last, const Blocks& blocks) {
    const int64_t groups = last - first, length = problem_.query_length;
    const PrefixState empty(width_, problem_.value_dim);
    std::vector<PrefixState> states(static_cast<size_t>(groups * blocks.count), empty),
        adjoints = states;
    // Every block needs the keys before it and the queries after it.
    RowCounts counts = Sum(groups * (blocks.count - 1) * 2, [&](int64_t piece) {
      const int64_t job = piece / 2, index = first + job / (blocks.count - 1);
      const int64_t block = job % (blocks.count - 1) + (piece % 2 == 0 ? 0 : 1);
      const kernels::RowRange range = blocks.Rows(block, length);
      const auto at = static_cast<size_t>((index - first) * blocks.count + block);
      const LinearHead head = Head(turn, index);
      if (piece % 2 == 0) return kernels_.append_keys(head, range, states[at]);
      return kernels_.append_queries(head, call_.Rows(turn, index), range, adjoints[at]);
    });
    ParallelFor(context_, groups * 2, [&](int64_t piece) {
      const int64_t at = piece / 2 * blocks.count;
      const auto count = static_cast<size_t>(blocks.count);
      if (piece % 2 == 0) {
        ScanStates({states.data() + at, count}, Side::kBefore);
      } else {
        ScanStates({adjoints.data() + at, count}, Side::kAfter);
      }
    });
    return counts += Sum(groups * blocks.count * 2, [&](int64_t piece) {
             const int64_t job = piece / 2, index = first + job / blocks.count;
             const kernels::RowRange range = blocks.Rows(job % blocks.count, length);
             const LinearHead head = Head(turn, index);
             const GradientRows rows = call_.Rows(turn, index);
             const auto at = static_cast<size_t>(job);
             if (piece % 2 == 0)
               return kernels_.causal_query_gradients(head, rows, range, states[at]);
             return kernels_.causal_key_gradients(head, rows, range, adjoints[at]);
           });
  }

  template <class Work>
  RowCounts Sum(int64_t pieces, const Work& work) {
    return ParallelReduce(
        context_, pieces, 1, RowCounts{}, [&](int64_t piece, int64_t) { return work(piece); },
        [](RowCounts& total, const RowCounts& part) { total += part; });
  }

  const BackwardCall& call_;
  const Problem& problem_;
  const Context& context_;
  const kernels::LinearKernels& kernels_;
  int64_t width_, state_bytes_;
};

void AddToElement(const View& to, int64_t row, int64_t column, double value) {
  SetElement(to, row, column, ElementAt(to, row, column) + value);
}

// Centred keys k − mean. Unnormalised sums carry exp(scale·q·mean), which depends on q and the
// mean; and a mean of the call's own keys depends on every key: dk ← dk + (d mean − Σ dk)/n.
void FinishCentring(const BackwardCall& call) {
  const Problem& problem = call.problem;
  const bool own_mean = call.options.key_mean.data() == nullptr;
  const auto d = static_cast<size_t>(problem.dim);
  ParallelFor(call.context, call.GroupsOfTurn(), [&](int64_t index) {
    std::vector<double> grad_mean(d, 0.0);
    for (int64_t turn = 0; !call.options.renormalize && turn < call.Turns(); ++turn) {
      const int64_t group = call.Group(turn, index);
      const std::vector<double>& mean = *call.record.heads[static_cast<size_t>(group)].mean;
      const GradientRows rows = call.Rows(turn, index);
      const ConstView queries = problem.Queries(group);
      const ConstView out = call.out.At(problem.Batch(group)).At(problem.Head(group));
      for (int64_t row = 0; row < problem.query_length; ++row) {
        double dot = 0;
        for (int64_t v = 0; v < problem.value_dim; ++v)
          dot += ElementAt(out, row, v) * ElementAt(rows.grad_output, row, v);
        for (size_t i = 0; i < d; ++i) {
          const auto column = static_cast<int64_t>(i);
          AddToElement(rows.grad_queries, row, column, problem.scale * dot * mean[i]);
          grad_mean[i] += problem.scale * dot * ElementAt(queries, row, column);
        }
      }
    }
    if (!own_mean) return;
    const View grad_keys = call.Rows(0, index).grad_keys;
    const float* mask = problem.Mask(call.Group(0, index));
    const auto exists = [&](int64_t row) { return mask == nullptr || mask[row] != 0; };
    double count = 0;
    for (int64_t row = 0; row < problem.key_length; ++row) {
      if (!exists(row)) continue;
      count += 1;
      for (size_t i = 0; i < d; ++i)
        grad_mean[i] -= ElementAt(grad_keys, row, static_cast<int64_t>(i));
    }
    for (int64_t row = 0; row < problem.key_length; ++row) {
      for (size_t i = 0; exists(row) && i < d; ++i)
        AddToElement(grad_keys, row, static_cast<int64_t>(i), grad_mean[i] / count);
    }
  });
}

}  // namespace

RowCounts LinearBackward(const BackwardCall& call) {
  const bool reference = call.options.reference;
  const RowCounts counts =
      LinearBackwardCall(call, reference ? kernels::reference::kLinear : kernels::cpu::kLinear)
          .Run();
  if (call.options.center_keys) FinishCentring(call);
  return counts;
}

}  // namespace favor::attention
