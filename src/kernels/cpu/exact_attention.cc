#include "kernels/exact_attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd/exact_rows.h"

namespace favor::kernels::cpu {
namespace {

// A multiple of the kernels' blocks of queries. Neighbours within a window see mostly the same
// keys, which stay in the cache of the thread that runs a longer task.
constexpr int64_t kTaskRows = 64, kWindowTaskRows = 512, kEnoughTasks = 64;

int64_t TaskRows(const AttentionProblem& problem) {
  const bool enough = problem.Groups() * problem.query_length >= kEnoughTasks * kWindowTaskRows;
  return problem.window >= 0 && enough ? kWindowTaskRows : kTaskRows;
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

// Blocks of queries and keys meet in waves: in wave w, block j of the keys meets block j + w
// (modulo their number) of the queries, so that within a wave every row of a gradient has one
// writer, and over the waves every sum has one order, whatever the threads.
class Waves {
 public:
  Waves(const AttentionProblem& problem, const Turns& turns)
      : problem_(problem),
        turns_(turns),
        queries_((problem.query_length + kSide - 1) / kSide),
        keys_((problem.key_length + kSide - 1) / kSide),
        begun_keys_(static_cast<size_t>(turns.groups * keys_), 0) {}

  RowCounts Run(const AttentionGradients& a, int64_t turn, const Context& context) {
    begun_queries_.assign(static_cast<size_t>(turns_.groups * queries_), 0);
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
    ParallelFor(context, turns_.groups, [&](int64_t index) { ZeroTheRest(a, turn, index); });
    return counts;
  }

 private:
  static constexpr int64_t kSide = 192;  // rows of a block: what a pair of them needs stays in L2

  // Whether no block of queries of a wave sees its block of keys, because both lie too far apart.
  bool IsOutOfReach(int64_t wave, int64_t waves) const {
    if (problem_.window < 0 || problem_.before != 0) return false;
    const int64_t reach = std::min(waves, problem_.window / kSide + 1);
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
    return Exact(HeadOf(a.problem, group), range, context, OutputOf(a, group));
  }).AddTo(*a.tally);
}

void ExactAttentionBackward(const AttentionGradients& a, const Context& context) {
  const Turns turns(a.problem);
  Waves waves(a.problem, turns);
  RowCounts counts;
  for (int64_t turn = 0; turn < turns.count; ++turn) counts += waves.Run(a, turn, context);
  counts.AddTo(*a.tally);
}

}  // namespace favor::kernels::cpu
