// Linear attention over batches and heads: every head's keys become prefix states, queries read
// them. Work is cut by shape: a head's sequence into blocks whose states merge in order, so that
// one long sequence keeps all threads busy too.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "attention/kinds.h"
#include "attention/linear_heads.h"
#include "core/error_text.h"
#include "core/parallel.h"
#include "kernels/linear_attention.h"

namespace favor::attention {
namespace {

using kernels::PrefixState;
using kernels::RowCounts;

constexpr int64_t kQueryRows = 256;        // rows of a read task
constexpr int64_t kBlockRows = 4096;       // of a block of a long sequence
constexpr int64_t kMaxBlocks = 256;        // of a head
constexpr int64_t kStateBytes = 64 << 20;  // of all states alive at a time
// So many heads keep threads busy: a causal sequence is then not cut, which saves half of its work.
constexpr int64_t kManyGroups = 16;

AttentionReport ToReport(const RowCounts& counts) {
  return {.nonpositive_rows = counts.nonpositive, .empty_rows = counts.empty};
}

// The two ways to compute, behind the same calls.
struct FastKernels {
  const Context& context;
  int64_t chunk;

  void Append(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state) const {
    kernels::cpu::AppendKeys(*head.features, head.keys, begin, end, context, state);
  }
  RowCounts Read(const LinearHead& head, int64_t begin, int64_t end,
                 const PrefixState& state) const {
    return kernels::cpu::ReadQueries(*head.features, head.queries, begin, end, state, context,
                                     head.out);
  }
  RowCounts Causal(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state) const {
    return kernels::cpu::Causal(*head.features, head.queries, head.keys, begin, end, chunk, context,
                                state, head.out);
  }
};

struct ReferenceKernels {
  void Append(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state) const {
    kernels::reference::AppendKeys(*head.features, head.keys, begin, end, state);
  }
  RowCounts Read(const LinearHead& head, int64_t begin, int64_t end,
                 const PrefixState& state) const {
    return kernels::reference::ReadQueries(*head.features, head.queries, begin, end, state,
                                           head.out);
  }
  RowCounts Causal(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state) const {
    return kernels::reference::Causal(*head.features, head.queries, head.keys, begin, end, state,
                                      head.out);
  }
};

template <class Kernels>
class LinearCall {
 public:
  LinearCall(const Problem& problem, const Context& context, const Kernels& kernels,
             const HeadMaker& maker, View out)
      : problem_(problem), context_(context), kernels_(kernels), maker_(maker), out_(out) {
    const int64_t length = problem.key_length;
    const bool cut = length > kBlockRows && !(problem.causal && problem.Groups() >= kManyGroups);
    const int64_t most = std::clamp<int64_t>(kStateBytes / maker.StateBytes(), 1, kMaxBlocks);
    block_rows_ = cut ? std::max(kBlockRows, (length + most - 1) / most) : length;
    blocks_ = (length + block_rows_ - 1) / block_rows_;
  }

  RowCounts Run() {
    const int64_t at_a_time =
        std::max<int64_t>(1, kStateBytes / (blocks_ * maker_.StateBytes() + maker_.HeadBytes()));
    RowCounts counts;
    for (int64_t first = 0; first < problem_.Groups(); first += at_a_time) {
      counts += RunGroups(first, std::min(problem_.Groups(), first + at_a_time));
    }
    return counts;
  }

 private:
  RowCounts RunGroups(int64_t first, int64_t last) {
    std::vector<std::optional<LinearHead>> heads(static_cast<size_t>(last - first));
    ParallelFor(context_, last - first, [&](int64_t i) {
      const View group_out = out_.At(problem_.Batch(first + i)).At(problem_.Head(first + i));
      heads[static_cast<size_t>(i)].emplace(maker_.Make(first + i, group_out));
    });
    std::vector<PrefixState> states(static_cast<size_t>((last - first) * blocks_));
    for (PrefixState& state : states) state = PrefixState(maker_.width(), problem_.value_dim);
    // A causal pass needs the states of all blocks but the last.
    const int64_t needed = problem_.causal ? blocks_ - 1 : blocks_;
    ParallelFor(context_, (last - first) * needed, [&](int64_t piece) {
      const int64_t group = piece / needed, begin = piece % needed * block_rows_;
      kernels_.Append(*heads[static_cast<size_t>(group)], begin,
                      std::min(problem_.key_length, begin + block_rows_),
                      states[static_cast<size_t>(group * blocks_ + piece % needed)]);
    });
    return problem_.causal ? Causal(heads, states) : Bidirectional(heads, states);
  }

  RowCounts Bidirectional(const std::vector<std::optional<LinearHead>>& heads,
                          std::vector<PrefixState>& states) {
    ParallelFor(context_, static_cast<int64_t>(heads.size()), [&](int64_t group) {
      PrefixState* first = states.data() + group * blocks_;
      for (int64_t block = 1; block < blocks_; ++block) kernels::MergeInto(first[block], first[0]);
    });
    const int64_t reads = (problem_.query_length + kQueryRows - 1) / kQueryRows;
    return Sum(static_cast<int64_t>(heads.size()) * reads, [&](int64_t piece) {
      const int64_t group = piece / reads, begin = piece % reads * kQueryRows;
      return kernels_.Read(*heads[static_cast<size_t>(group)], begin,
                           std::min(problem_.query_length, begin + kQueryRows),
                           states[static_cast<size_t>(group * blocks_)]);
    });
  }

  // Exclusive prefix of the block states, then every block goes on from its own.
  RowCounts Causal(const std::vector<std::optional<LinearHead>>& heads,
                   std::vector<PrefixState>& states) {
    ParallelFor(context_, static_cast<int64_t>(heads.size()), [&](int64_t group) {
      PrefixState running(maker_.width(), problem_.value_dim);
      for (int64_t block = 0; block < blocks_; ++block) {
        PrefixState& state = states[static_cast<size_t>(group * blocks_ + block)];
        PrefixState next = running;
        kernels::MergeInto(state, next);
        state = std::exchange(running, std::move(next));
      }
    });
    return Sum(static_cast<int64_t>(heads.size()) * blocks_, [&](int64_t piece) {
      const int64_t begin = piece % blocks_ * block_rows_;
      return kernels_.Causal(*heads[static_cast<size_t>(piece / blocks_)], begin,
                             std::min(problem_.key_length, begin + block_rows_),
                             states[static_cast<size_t>(piece)]);
    });
  }

  template <class Work>
  RowCounts Sum(int64_t pieces, const Work& work) {
    return ParallelReduce(
        context_, pieces, 1, RowCounts{}, [&](int64_t piece, int64_t) { return work(piece); },
        [](RowCounts& total, const RowCounts& part) { total += part; });
  }

  const Problem& problem_;
  const Context& context_;
  const Kernels& kernels_;
  const HeadMaker& maker_;
  View out_;
  int64_t block_rows_, blocks_;
};

}  // namespace

AttentionReport Linear(const Problem& problem, const AttentionOptions& options,
                       const Context& context, View out) {
  if (options.chunk < 1 || options.chunk > AttentionOptions::kMaxChunk) {
    Throw(ErrorCode::kInvalidOption, "chunk", "given {}, expected 1 to {}", options.chunk,
          AttentionOptions::kMaxChunk);
  }
  const HeadMaker maker(problem, options, context);
  if (options.reference) {
    const ReferenceKernels kernels;
    return ToReport(LinearCall(problem, context, kernels, maker, out).Run());
  }
  const FastKernels kernels{context, options.chunk};
  return ToReport(LinearCall(problem, context, kernels, maker, out).Run());
}

}  // namespace favor::attention
