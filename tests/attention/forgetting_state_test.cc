// States that forget: token by token, in pieces, merged in order, saved and loaded, they hold what
// one causal call holds.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "favor/error.h"
#include "favor/favor.h"
#include "tests/attention/oracle.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

constexpr int64_t kLength = 130, kHeads = 4, kKeyHeads = 2, kDim = 6, kValueDim = 5;

Tensor Copied(const ConstView& part) {
  Tensor copy(part.shape());
  Copy(part, copy);
  return copy;
}

// A causal call over two batch entries with decays from none to nearly total, and some masked keys.
struct Prefix {
  explicit Prefix(const std::string& map)
      : plan(FeaturePlan::Draw({.map = map, .features = 12}, kHeads, kDim, 3)),
        q(RandomTensor({2, kHeads, kLength, kDim}, 0.5, 1)),
        k(RandomTensor({2, kKeyHeads, kLength, kDim}, 0.5, 2)),
        v(RandomTensor({2, kKeyHeads, kLength, kValueDim}, 1, 3)),
        log_decay({2, kHeads, kLength}, DataType::kF64),
        mask({2, kKeyHeads, kLength}) {
    for (int64_t i = 0; i < log_decay.shape().Elements(); ++i)
      log_decay.Data<double>()[i] = i % 41 == 7 ? -30 : i % 7 == 0 ? 0 : -0.05 * double(i % 5);
    for (int64_t i = 0; i < mask.shape().Elements(); ++i)
      mask.Data<float>()[i] = i % 13 == 4 ? 0.0f : 1.0f;
  }

  Tensor Whole(const Context& context) const {
    AttentionOptions options{.causal = true, .plan = plan};
    options.key_mask = mask;
    options.log_decay = log_decay;
    return Attend(q, k, v, options, context);
  }
  AttentionState Empty(int64_t begin = 0) const {
    return {plan, {.batch = 2, .value_dim = kValueDim, .begin = begin, .forgets = true}};
  }
  ConstView Part(const Tensor& rows, int64_t at, int64_t count) const {
    return rows.view().Range(2, at, count);
  }
  TokenOptions Tokens(int64_t at, int64_t count) const {
    return {.key_mask = Part(mask, at, count), .log_decay = Part(log_decay, at, count)};
  }
  void Append(AttentionState& state, int64_t at, int64_t count) const {
    state.Append(Part(k, at, count), Part(v, at, count), Context(), Tokens(at, count));
  }
  // The last row of the whole call against the state's.
  void ExpectHoldsAll(const AttentionState& state, const std::string& where) const {
    const Tensor want = Whole(Context());
    const Tensor got = state.Attend(Part(q, kLength - 1, 1), Context());
    EXPECT_EQ(state.end(), kLength) << where;
    EXPECT_LE(LargestDifference(got, Copied(Part(want, kLength - 1, 1))),
              1e-5 * LargestAbsolute(want))
        << where;
  }

  FeaturePlan plan;
  Tensor q, k, v, log_decay, mask;
};

TEST(ForgettingState, ContinuesLikeOneCall) {
  for (const char* map : {"positive", "relu", "taylor1"}) {
    const Prefix prefix(map);
    const Tensor want = prefix.Whole(Context());
    for (const int64_t piece : {int64_t{1}, int64_t{4}, int64_t{33}, kLength}) {
      AttentionState state = prefix.Empty();
      for (int64_t at = 0; at < kLength; at += piece) {
        const int64_t count = std::min(piece, kLength - at);
        const Tensor got =
            state.Continue(prefix.Part(prefix.q, at, count), prefix.Part(prefix.k, at, count),
                           prefix.Part(prefix.v, at, count), Context(), prefix.Tokens(at, count));
        EXPECT_LE(LargestDifference(got, Copied(prefix.Part(want, at, count))),
                  1e-5 * LargestAbsolute(want))
            << map << " " << piece << " at " << at;
      }
      prefix.ExpectHoldsAll(state, map);
    }
  }
}

TEST(ForgettingState, AppendsAndMergesInOrder) {
  for (const char* map : {"positive", "relu", "taylor1"}) {
    const Prefix prefix(map);
    for (const int64_t piece : {int64_t{1}, int64_t{4}, int64_t{50}, kLength}) {
      AttentionState appended = prefix.Empty(), merged = prefix.Empty();
      for (int64_t at = 0; at < kLength; at += piece) {
        const int64_t count = std::min(piece, kLength - at);
        prefix.Append(appended, at, count);
        AttentionState part = prefix.Empty(at);
        prefix.Append(part, at, count);
        merged.Merge(part);
      }
      prefix.ExpectHoldsAll(appended, std::string(map) + " appended");
      prefix.ExpectHoldsAll(merged, std::string(map) + " merged");
    }
    // A (B C); above it was (A B) C.
    AttentionState a = prefix.Empty(), b = prefix.Empty(40), c = prefix.Empty(90);
    prefix.Append(a, 0, 40);
    prefix.Append(b, 40, 50);
    prefix.Append(c, 90, 40);
    b.Merge(c);
    a.Merge(b);
    prefix.ExpectHoldsAll(a, std::string(map) + " from the right");
  }
}

TEST(ForgettingState, IsTheSameAfterAFile) {
  const Prefix prefix("positive");
  AttentionState first = prefix.Empty(), second = prefix.Empty(70);
  prefix.Append(first, 0, 70);
  prefix.Append(second, 70, kLength - 70);
  const TempDir dir;
  first.Save(dir / "a");
  second.Save(dir / "b");
  AttentionState loaded = AttentionState::Load(dir / "a");
  EXPECT_TRUE(loaded.forgets());
  loaded.Merge(AttentionState::Load(dir / "b"));  // Λ of the second acts on the first
  prefix.ExpectHoldsAll(loaded, "loaded");
  AttentionState clone = first.Clone();
  clone.Merge(second);
  prefix.ExpectHoldsAll(clone, "cloned");
}

TEST(ForgettingState, RefusesWhatItCannotMean) {
  const Prefix prefix("positive");
  const auto refused = [](const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  AttentionState state = prefix.Empty(), other(prefix.plan, {.batch = 2, .value_dim = kValueDim});
  prefix.Append(state, 0, 10);
  const ConstView k = prefix.Part(prefix.k, 0, 10), v = prefix.Part(prefix.v, 0, 10);
  EXPECT_NE(refused([&] { state.Append(k, v, Context()); }).find("not given to a state that"),
            std::string::npos);
  EXPECT_NE(refused([&] {
              other.Append(k, v, Context(), prefix.Tokens(0, 10));
            }).find("given to a state that forgets nothing"),
            std::string::npos);
  EXPECT_NE(refused([&] {
              state.Append(k, v, Context(), {.log_decay = prefix.log_decay});
            }).find("given shape"),
            std::string::npos);
  EXPECT_EQ(state.end(), 10);
  EXPECT_NE(refused([&] { state.Merge(other); }).find("one of them forgets"), std::string::npos);
  EXPECT_NE(refused([&] { other.Merge(state); }).find("one of them forgets"), std::string::npos);
  AttentionState last(prefix.plan,
                      {.batch = 2, .value_dim = kValueDim, .begin = (int64_t{1} << 53) - 9});
  EXPECT_NE(refused([&] { last.Append(k, v, Context()); }).find("at most 2^53"), std::string::npos);
  // What a mask hides may hold anything, its decay too.
  Prefix hidden("positive");
  hidden.log_decay.Data<double>()[4] = std::nan("");  // the fifth key of the first head is masked
  EXPECT_EQ(refused([&] {
              AttentionState fresh = hidden.Empty();
              hidden.Append(fresh, 0, 10);
            }),
            "");
  AttentionState gap = prefix.Empty(11);
  EXPECT_NE(refused([&] { state.Merge(gap); }).find("ends at token 10 and one that begins at 11"),
            std::string::npos);
  EXPECT_EQ(state.end(), 10);
}

}  // namespace
}  // namespace favor
