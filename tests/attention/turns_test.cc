// Calls whose states exceed the memory limit: heads are computed in several turns.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/blocks.h"
#include "tests/attention/head_by_head.h"

namespace favor {
namespace {

constexpr int64_t kFeatures = 256, kValueDim = 64;
constexpr HeadsShape kShape{
    .batch = 64, .heads = 8, .kv_heads = 8, .length = 24, .dim = 16, .value_dim = kValueDim};

// Compares batch entries of the first, a middle and the last turn.
void ExpectTurnsLeaveNoTrace(const HeadArrays& arrays, const AttentionOptions& options) {
  ASSERT_GT(kShape.batch * kShape.heads * kernels::PrefixState::Bytes(kFeatures, kValueDim),
            2 * kernels::cpu::Blocks::kStateBytes)
      << "fewer than three turns";
  const Context context({.threads = 2});
  for (const bool traced : {true, false}) {
    SCOPED_TRACE(std::string(options.causal ? "causal, " : "") +
                 std::to_string(arrays.k.shape()[1]) + " heads of keys, " +
                 (traced ? "traced" : "recomputed"));
    const HeadResults got = AllHeads(arrays, options, context, traced);
    for (const int64_t batch : {int64_t{0}, kShape.batch / 2, kShape.batch - 1})
      ExpectHeadByHead(arrays, got, options, context, batch);
  }
}

TEST(Turns, GiveWhatEveryHeadGivesAlone) {
  for (const bool causal : {false, true}) {
    AttentionOptions options{.causal = causal};
    options.plan = FeaturePlan::Draw({.features = kFeatures}, kShape.heads, kShape.dim, 3);
    ExpectTurnsLeaveNoTrace(RandomArrays(kShape, 0.7), options);
  }
}

// Gradients take one query head of each key head at a time; 256 of these still need two turns.
TEST(Turns, GiveWhatSharedHeadsGiveAlone) {
  HeadsShape shape = kShape;
  shape.kv_heads = 4;
  for (const bool causal : {false, true}) {
    AttentionOptions options{.causal = causal};
    options.plan = FeaturePlan::Draw({.features = kFeatures}, shape.heads, shape.dim, 3);
    ExpectTurnsLeaveNoTrace(RandomArrays(shape, 0.7), options);
  }
}

// oprf's A and the mean of keys are constants of each head.
TEST(Turns, KeepTheConstantsOfEveryHead) {
  AttentionOptions options{.center_keys = true};
  options.plan =
      FeaturePlan::Draw({.map = "oprf", .features = kFeatures}, kShape.heads, kShape.dim, 3);
  ExpectTurnsLeaveNoTrace(RandomArrays(kShape, 0.7), options);
}

}  // namespace
}  // namespace favor
