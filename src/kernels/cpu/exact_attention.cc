#include "kernels/exact_attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/cpu/attention_checks.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd/exact_rows.h"

namespace favor::kernels::cpu {
namespace {

// A multiple of the kernels' blocks of queries. Neighbours within a window see mostly the same
// keys, which stay in the cache of the thread that runs a longer task; there must be enough of
// those.
constexpr int64_t kTaskRows = 64, kLongTaskRows = 512, kEnoughTasks = 256;

int64_t TaskRows(const AttentionProblem& problem) {
  const bool near = problem.window >= 0 && problem.window <= kLongTaskRows;
  const bool enough = problem.Groups() * problem.query_length >= kEnoughTasks * kLongTaskRows;
  return near && enough ? kLongTaskRows : kTaskRows;
}

// Sums work(group, range) over tasks of rows of all groups. The last rows of a causal call are the
// longest work: they come first.
template <class Work>
RowCounts ForTasks(const Context& context, const AttentionProblem& problem, const Work& work) {
  const int64_t length = problem.query_length, rows = TaskRows(problem),
                tasks = (length + rows - 1) / rows;
  return SumPieces(context, problem.Groups() * tasks, [&](int64_t piece) {
    const int64_t begin = (tasks - 1 - piece % tasks) * rows;
    return work(piece / tasks, RowRange{begin, std::min(length, begin + rows)});
  });
}

// As large a part of the keys as `queries` is of the queries: all parts are all keys.
RowRange KeysOf(const AttentionProblem& problem, RowRange queries) {
  const auto key = [&](int64_t query) { return query * problem.key_length / problem.query_length; };
  return {key(queries.begin), key(queries.end)};
}

// Blocks of queries and keys meet in an order in which, at any time, every row of a gradient has
// one writer, and every sum has one order, whatever the threads. If all meet all, they do so in
// waves: in wave w, block j of the keys meets block j + w (modulo their number) of the queries. If
// only neighbours meet, a task takes a run of blocks, whose rows stay in its cache from one pair to
// the next; pairs over the end of a run come after all runs.
class Pairs {
 public:
  Pairs(const AttentionProblem& problem, const Turns& turns)
      : problem_(problem),
        turns_(turns),
        queries_((problem.query_length + kSide - 1) / kSide),
        keys_((problem.key_length + kSide - 1) / kSide),
        begun_keys_(static_cast<size_t>(turns.groups * keys_), 0) {}

  RowCounts Run(const AttentionGradients& a, int64_t turn, const Context& context) {
    begun_queries_.assign(static_cast<size_t>(turns_.groups * queries_), 0);
    const RowCounts counts =
        OnlyNeighboursMeet() ? MeetInRuns(a, turn, context) : MeetInWaves(a, turn, context);
    ParallelFor(context, turns_.groups, [&](int64_t index) { ZeroTheRest(a, turn, index); });
    return counts;
  }

 private:
  static constexpr int64_t kSide = 256;  // rows of a block: what a pair of them needs stays in L2
  static constexpr int64_t kRun = 8, kEnoughRuns = 64;

  // The largest distance of blocks that meet, within a window.
  int64_t Reach() const { return problem_.window / kSide + 1; }

  bool OnlyNeighboursMeet() const {
    return problem_.window >= 0 && problem_.before == 0 && queries_ == keys_ &&
           2 * Reach() <= kRun && turns_.groups * keys_ >= kEnoughRuns * kRun;
  }

  RowCounts MeetInRuns(const AttentionGradients& a, int64_t turn, const Context& context) {
    const int64_t runs = (keys_ + kRun - 1) / kRun;
    RowCounts counts = SumPieces(context, turns_.groups * runs, [&](int64_t piece) {
      const int64_t index = piece / runs, begin = piece % runs * kRun,
                    end = std::min(keys_, begin + kRun);
      RowCounts of_run;
      for (int64_t block = begin; block < end; ++block) {
        of_run += Meet(a, turn, index, block, block, context);
        for (int64_t other = std::max(begin, block - Reach()); other < block; ++other) {
          of_run += Meet(a, turn, index, block, other, context);
          of_run += Meet(a, turn, index, other, block, context);
        }
      }
      return of_run;
    });
    return counts += SumPieces(context, turns_.groups * (runs - 1), [&](int64_t piece) {
             const int64_t index = piece / (runs - 1), end = (piece % (runs - 1) + 1) * kRun;
             RowCounts over_end;
             for (int64_t block = end; block < std::min(keys_, end + Reach()); ++block) {
               for (int64_t other = block - Reach(); other < end; ++other) {
                 over_end += Meet(a, turn, index, block, other, context);
                 over_end += Meet(a, turn, index, other, block, context);
               }
             }
             return over_end;
           });
  }

  RowCounts MeetInWaves(const AttentionGradients& a, int64_t turn, const Context& context) {
    RowCounts counts;
    const int64_t waves = std::max(queries_, keys_);
    for (int64_t wave = 0; wave < waves; ++wave) {
      if (IsOutOfReach(wave, waves)) continue;
      counts += SumPieces(context, turns_.groups * keys_, [&](int64_t piece) {
        const int64_t index = piece / keys_, key_block = piece % keys_,
                      query_block = (key_block + wave) % waves;
        return query_block < queries_ ? Meet(a, turn, index, query_block, key_block, context)
                                      : RowCounts{};
      });
    }
    return counts;
  }

  // Whether no block of queries of a wave sees its block of keys, because both lie too far apart.
  bool IsOutOfReach(int64_t wave, int64_t waves) const {
    if (problem_.window < 0 || problem_.before != 0) return false;
    const int64_t reach = std::min(waves, Reach());
    return wave > reach && wave < waves - reach;
  }

  static RowRange Rows(int64_t block, int64_t length) {
    return {block * kSide, std::min(length, (block + 1) * kSide)};
  }
  uint8_t& BegunQueries(int64_t index, int64_t block) {
    return begun_queries_[static_cast<size_t>(index * queries_ + block)];
  }
  uint8_t& BegunKeys(int64_t index, int64_t block) {
    return begun_keys_[static_cast<size_t>(index * keys_ + block)];
  }

  RowCounts Meet(const AttentionGradients& a, int64_t turn, int64_t index, int64_t query_block,
                 int64_t key_block, const Context& context) {
    const ExactHead head = HeadOf(problem_, turns_.Group(turn, index));
    RowRange queries = Rows(query_block, problem_.query_length),
             keys = Rows(key_block, problem_.key_length);
    const RowRange seen = Within(head.KeysSeenBy(queries), keys);
    if (seen.count() == 0) return {};
    uint8_t &begun_queries = BegunQueries(index, query_block),
            &begun_keys = BegunKeys(index, key_block);
    // What is added to gradients need not be a whole block.
    if (begun_keys != 0) keys = seen;
    if (begun_queries != 0) queries = Within(head.QueriesSeeing(keys), queries);
    const RowCounts counts = ExactGradients(head, turns_.Rows(a, turn, index),
                                            {.queries = queries,
                                             .keys = keys,
                                             .add_to_queries = begun_queries != 0,
                                             .add_to_keys = begun_keys != 0},
                                            context);
    begun_queries = begun_keys = 1;
    return counts;
  }

  // Blocks that met none.
  void ZeroTheRest(const AttentionGradients& a, int64_t turn, int64_t index) {
    const HeadGradients rows = turns_.Rows(a, turn, index);
    const auto zero = [](const View& to, RowRange range) {
      for (int64_t row = range.begin; row < range.end; ++row) {
        for (int64_t i = 0; i < to.size(1); ++i) SetElement(to, row, i, 0);
      }
    };
    for (int64_t block = 0; block < queries_; ++block) {
      if (BegunQueries(index, block) == 0)
        zero(rows.grad_queries, Rows(block, problem_.query_length));
    }
    for (int64_t block = 0; block < keys_; ++block) {
      if (std::exchange(BegunKeys(index, block), 1) != 0) continue;
      zero(rows.grad_keys, Rows(block, problem_.key_length));
      zero(rows.grad_values, Rows(block, problem_.key_length));
    }
  }

  const AttentionProblem& problem_;
  const Turns& turns_;
  int64_t queries_, keys_;  // numbers of blocks
  // Per group and block: 1 once its gradients hold something. Later turns add to those of keys.
  std::vector<uint8_t> begun_queries_, begun_keys_;
};

}  // namespace

void ExactAttention(const AttentionArguments& a, const Context& context) {
  ForTasks(context, a.problem, [&](int64_t group, RowRange range) {
    RowCounts counts;
    if (a.checks_inputs)
      counts = CountUnusableRows(a.problem, group, range, KeysOf(a.problem, range));
    return counts += Exact(HeadOf(a.problem, group), range, context, OutputOf(a, group));
  }).AddTo(*a.tally);
}

void ExactAttentionBackward(const AttentionGradients& a, const Context& context) {
  const Turns turns(a.problem);
  Pairs pairs(a.problem, turns);
  RowCounts counts;
  for (int64_t turn = 0; turn < turns.count; ++turn) counts += pairs.Run(a, turn, context);
  counts.AddTo(*a.tally);
}

}  // namespace favor::kernels::cpu
