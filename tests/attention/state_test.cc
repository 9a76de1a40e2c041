// A state gives the same result however it is made: token by token, in chunks, merged from halves,
// or saved and loaded.
#include "favor/state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "favor/error.h"
#include "tests/attention/oracle.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

Tensor Rows(const Tensor& x, int64_t begin, int64_t count) {
  const int axis = x.shape().rank() - 2;
  const ConstView part = x.view().Range(axis, begin, count);
  Tensor copy(part.shape());
  Copy(part, copy);
  return copy;
}

// Scales the norms of the keys along the sequence.
Tensor Profile(Tensor k, const std::string& profile) {
  const int64_t length = k.shape()[1], d = k.shape()[2];
  for (int64_t i = 0; i < k.shape().Elements(); ++i) {
    const int64_t row = i / d % length;
    const double t = static_cast<double>(row) / static_cast<double>(length - 1);
    const double factor = profile == "grow"     ? std::pow(1000, t - 1)
                          : profile == "shrink" ? std::pow(1000, -t)
                          : profile == "jump"   ? (row / 17 % 2 ? 1e-3 : 1)
                                                : 1;
    k.Data<float>()[i] *= static_cast<float>(factor);
  }
  return k;
}

class EveryKindOfState
    : public testing::TestWithParam<std::tuple<std::string, std::string, double>> {};

TEST_P(EveryKindOfState, StreamingChunksAndMergesAgree) {
  const auto& [map, profile, deviation] = GetParam();
  const int64_t heads = 2, length = 120, d = 16, dv = 6;
  const Context context({.seed = 1});
  const Tensor q = RandomTensor({heads, length, d}, deviation, 1),
               v = RandomTensor({heads, length, dv}, 1, 3);
  const Tensor k = Profile(RandomTensor({heads, length, d}, deviation, 2), profile);
  FeatureOptions options{.map = map, .features = 48};
  if (map == "oprf") options.oprf_a = {-0.05};
  const auto plan = FeaturePlan::Draw(options, heads, d, 1);
  const double tolerance = deviation <= 1 ? 1e-5 : 1e-4;

  AttentionState streamed(plan, {.value_dim = dv});
  Tensor token_by_token({heads, length, dv});
  for (int64_t i = 0; i < length; ++i) {
    streamed.Append(Rows(k, i, 1), Rows(v, i, 1), context);
    const Tensor out = streamed.Attend(Rows(q, i, 1), context);
    for (int64_t h = 0; h < heads; ++h)
      Copy(out.view().At(h), token_by_token.view().At(h).Range(0, i, 1));
  }
  EXPECT_EQ(streamed.tokens(), length);
  const Tensor causal = Attend(q, k, v, {.causal = true, .plan = plan}, context);
  EXPECT_LE(LargestDifference(token_by_token, causal), tolerance);

  // Continuing in uneven steps.
  AttentionState continued(plan, {.value_dim = dv});
  int64_t at = 0;
  for (const int64_t step : {1, 50, 69}) {
    const Tensor out =
        continued.Continue(Rows(q, at, step), Rows(k, at, step), Rows(v, at, step), context);
    EXPECT_LE(LargestDifference(out, Rows(causal, at, step)), tolerance);
    at += step;
  }
  // Two halves, merged; compared with the bidirectional call.
  AttentionState first(plan, {.value_dim = dv}), second(plan, {.value_dim = dv});
  first.Append(Rows(k, 0, 47), Rows(v, 0, 47), context);
  second.Append(Rows(k, 47, length - 47), Rows(v, 47, length - 47), context);
  first.Merge(second);
  const Tensor all = Attend(q, k, v, {.plan = plan}, context);
  EXPECT_LE(LargestDifference(first.Attend(q, context), all), tolerance);
  EXPECT_LE(LargestDifference(streamed.Attend(q, context), all), tolerance);
  EXPECT_LE(LargestDifference(continued.Attend(q, context), all), tolerance);
}

INSTANTIATE_TEST_SUITE_P(State, EveryKindOfState,
                         testing::Combine(testing::Values("positive", "hyperbolic", "oprf", "elu",
                                                          "taylor", "poly-exact"),
                                          testing::Values("level", "grow", "shrink", "jump"),
                                          testing::Values(1.0, 8.0)));

// Read returns the true logarithm: the parts are sums of the kernel itself over keys.
TEST(State, PartsAreTheSumsThemselves) {
  const Context context;
  const Tensor q = RandomTensor({4, 8}, 1, 1), k = RandomTensor({9, 8}, 1, 2),
               v = RandomTensor({9, 3}, 1, 3), mean = RandomTensor({8}, 0.5, 4);
  const auto plan = FeaturePlan::Draw({.features = 30}, 1, 8, 2);
  for (const bool centred : {false, true}) {
    StateOptions options{.value_dim = 3, .scale = 0.5};
    AttentionOptions call{.scale = 0.5, .renormalize = false, .plan = plan};
    if (centred) options.key_mean = mean, call.key_mean = mean, call.center_keys = true;
    AttentionState state(plan, options);
    state.Append(k, v, context);
    const auto parts = state.Read(q, context);
    EXPECT_EQ(parts.log_scale.shape(), (Shape{4}));
    const Tensor sums = Attend(q, k, v, call, context), ratio = state.Attend(q, context);
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        const double n = parts.numerator.Data<double>()[i * 3 + c],
                     d = parts.denominator.Data<double>()[i],
                     rho = parts.log_scale.Data<double>()[i];
        EXPECT_NEAR(std::exp(rho) * n, sums.Data<float>()[i * 3 + c],
                    1e-4 * std::fabs(std::exp(rho) * n) + 1e-5);
        EXPECT_NEAR(n / d, ratio.Data<float>()[i * 3 + c], 1e-6);
      }
    }
  }
}

TEST(State, SizeDoesNotDependOnTheLength) {
  const Context context;
  const TempDir dir;
  const auto plan = FeaturePlan::Draw({.features = 20}, 1, 8, 2);
  AttentionState state(plan, {.value_dim = 4});
  state.Append(RandomTensor({5, 8}, 1, 1), RandomTensor({5, 4}, 1, 2), context);
  const int64_t bytes = state.Bytes();
  state.Save(dir / "a");
  state.Append(RandomTensor({5000, 8}, 1, 3), RandomTensor({5000, 4}, 1, 4), context);
  state.Save(dir / "b");
  EXPECT_EQ(state.Bytes(), bytes);
  EXPECT_NEAR(static_cast<double>(ReadText(dir / "a").size()),
              static_cast<double>(ReadText(dir / "b").size()), 64);
}

TEST(State, SurvivesSavingWithAllThatDefinesIt) {
  const TempDir dir;
  const Context context;
  const Tensor mean = RandomTensor({2, 8}, 0.3, 9);
  for (const char* map : {"positive", "oprf", "relu", "hyperbolic", "regularized"}) {
    for (const char* projection : {"orthogonal", "hadamard"}) {
      for (const bool shared : {false, true}) {
        FeatureOptions options{
            .map = map, .projection = projection, .features = 12, .shared_omega = shared};
        if (std::string(map) == "oprf" && !shared) options.oprf_a = {-0.03, -0.07};
        if (shared) options.omega_type = OmegaType::kBF16;
        StateOptions state_options{.batch = 2, .value_dim = 3, .scale = 0.3};
        if (std::string(map) == "positive") state_options.key_mean = mean;
        AttentionState state(FeaturePlan::Draw(options, 2, 8, 3), state_options);
        const Tensor k = RandomTensor({2, 1, 30, 8}, 1, 1), v = RandomTensor({2, 1, 30, 3}, 1, 2),
                     q = RandomTensor({2, 2, 7, 8}, 1, 4);
        state.Append(k, v, context);
        state.Save(dir / "s");
        AttentionState loaded = AttentionState::Load(dir / "s");
        EXPECT_EQ(loaded.tokens(), 30);
        EXPECT_EQ(loaded.plan().options().omega_type, options.omega_type);
        EXPECT_LE(LargestDifference(loaded.Attend(q, context), state.Attend(q, context)), 2e-6)
            << map << " " << projection;
        loaded.Merge(state);  // both have the same plan and sizes
        EXPECT_EQ(loaded.tokens(), 60);
      }
    }
  }
}

TEST(State, RefusesToMergeAnotherKind) {
  const auto make = [](const FeatureOptions& options, uint64_t seed, const StateOptions& state) {
    return AttentionState(FeaturePlan::Draw(options, 1, 8, seed), state);
  };
  const Tensor mean = RandomTensor({8}, 1, 1);
  const auto says = [&](AttentionState a, const AttentionState& b) -> std::string {
    try {
      a.Merge(b);
    } catch (const Error& error) {
      return error.what();
    }
    return "merged";
  };
  const StateOptions plain{.value_dim = 4};
  EXPECT_EQ(says(make({.features = 8}, 1, plain), make({.features = 8}, 1, plain)), "merged");
  EXPECT_NE(
      says(make({.features = 8}, 1, plain), make({.features = 8}, 2, plain)).find("ω differs"),
      std::string::npos);
  EXPECT_NE(says(make({.features = 8}, 1, plain), make({.map = "oprf", .features = 8}, 1, plain))
                .find("the map"),
            std::string::npos);
  EXPECT_NE(says(make({.map = "oprf", .features = 8, .oprf_a = {-0.1}}, 1, plain),
                 make({.map = "oprf", .features = 8, .oprf_a = {-0.2}}, 1, plain))
                .find("oprf's A"),
            std::string::npos);
  EXPECT_NE(says(make({.features = 8}, 1, plain), make({.features = 9}, 1, plain)).find("the size"),
            std::string::npos);
  EXPECT_NE(
      says(make({.features = 8}, 1, plain), make({.features = 8}, 1, {.value_dim = 4, .scale = 1}))
          .find("the scale"),
      std::string::npos);
  EXPECT_NE(says(make({.features = 8}, 1, plain),
                 make({.features = 8}, 1, {.value_dim = 4, .key_mean = mean}))
                .find("the key mean"),
            std::string::npos);
}

TEST(State, ForksByClone) {
  const Context context;
  AttentionState state(FeaturePlan::Draw({.features = 8}, 1, 4, 1), {.value_dim = 2});
  state.Append(RandomTensor({5, 4}, 1, 1), RandomTensor({5, 2}, 1, 2), context);
  AttentionState fork = state.Clone();
  fork.Append(RandomTensor({3, 4}, 1, 3), RandomTensor({3, 2}, 1, 4), context);
  EXPECT_EQ(state.tokens(), 5);
  EXPECT_EQ(fork.tokens(), 8);
}

// A state never accepts numbers that it could not compute with.
TEST(State, RefusesNumbersThatWouldSpoilIt) {
  const Context context;
  AttentionState state(FeaturePlan::Draw({.features = 8}, 1, 4, 1), {.value_dim = 2});
  Tensor k({1, 4}, DataType::kF64), v({1, 2}, DataType::kF64);
  v.Data<double>()[1] = 1e39;
  EXPECT_THROW(state.Append(k, v, context), Error);
  v.Data<double>()[1] = NAN;
  EXPECT_THROW(state.Append(k, v, context), Error);
  EXPECT_EQ(state.tokens(), 0);
  EXPECT_THROW(AttentionState(FeaturePlan::Draw({.map = "relu", .features = 8}, 1, 4, 1),
                              {.value_dim = 2, .key_mean = Tensor({4})}),
               Error);
}

// Keys and mean are each in range, their difference is not. The state is unchanged after the error.
TEST(State, RefusesKeysFarFromTheirMean) {
  const Context context;
  Tensor mean({4}), k({2, 4}), far({2, 4});
  for (int64_t i = 0; i < 4; ++i) {
    mean.Data<float>()[i] = -2e7f;
    far.Data<float>()[4 + i] = 2e7f;  // scale·d·x² is 8e14; for the difference, 3.2e15
  }
  AttentionState state(FeaturePlan::Draw({.features = 8}, 1, 4, 1),
                       {.value_dim = 2, .key_mean = mean});
  const Tensor q({2, 4}), v = RandomTensor({2, 2}, 1, 1);
  state.Append(k, v, context);
  const Tensor before = state.Attend(q, context);
  const auto refused = [&](const std::function<void()>& call) {
    try {
      call();
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
      EXPECT_NE(std::string(error.what()).find("k: given row 1 at a distance of 8e+07"),
                std::string::npos)
          << error.what();
    }
    EXPECT_EQ(state.tokens(), 2);
    EXPECT_EQ(LargestDifference(state.Attend(q, context), before), 0);
  };
  refused([&] { state.Append(far, v, context); });
  refused([&] { state.Continue(q, far, v, context); });
  Tensor mask({2});
  mask.Data<float>()[0] = 1;  // the row does not exist
  far.Data<float>()[5] = NAN;
  EXPECT_NO_THROW(state.Append(far, v, context, {.key_mask = mask}));
}

// The means of heads that share keys may differ: every one of them counts.
TEST(State, RefusesKeysFarFromTheMeanOfAHeadThatSharesThem) {
  const Context context;
  Tensor mean({2, 4}), far({1, 2, 4});
  for (int64_t i = 0; i < 4; ++i) {
    mean.Data<float>()[4 + i] = -2e7f;  // of the second head
    far.Data<float>()[4 + i] = 2e7f;
  }
  AttentionState state(FeaturePlan::Draw({.features = 8}, 2, 4, 1),
                       {.value_dim = 2, .key_mean = mean});
  const Tensor q({2, 2, 4}), v = RandomTensor({1, 2, 2}, 1, 1);
  state.Append(Tensor({1, 2, 4}), v, context);
  const Tensor before = state.Attend(q, context);
  EXPECT_THROW(state.Append(far, v, context), Error);
  EXPECT_THROW(state.Continue(q, far, v, context), Error);
  EXPECT_EQ(state.tokens(), 2);
  EXPECT_EQ(LargestDifference(state.Attend(q, context), before), 0);
}

// Keys of the first head exist twice, of the second five times, however they are appended.
TEST(State, CountsTheMostTokensOfAnyHead) {
  const Context context;
  const Tensor k = RandomTensor({2, 6, 4}, 1, 1), v = RandomTensor({2, 6, 3}, 1, 2);
  Tensor mask({1, 2, 6});
  for (const int64_t i : {1, 4, 6, 7, 8, 10, 11}) mask.Data<float>()[i] = 1;
  for (const int64_t piece : {6, 3, 1}) {
    AttentionState state(FeaturePlan::Draw({.features = 8}, 2, 4, 1), {.value_dim = 3});
    for (int64_t at = 0; at < 6; at += piece) {
      state.Append(Rows(k, at, piece), Rows(v, at, piece), context,
                   {.key_mask = mask.view().Range(2, at, piece)});
    }
    EXPECT_EQ(state.tokens(), 5) << piece;
    EXPECT_EQ(state.end(), 6) << piece;
  }
}

TEST(State, ContinuesOnlyIntoMemoryOfItsOwn) {
  const Context context;
  AttentionState state(FeaturePlan::Draw({.features = 8}, 2, 3, 1), {.value_dim = 3});
  Tensor q = RandomTensor({2, 5, 3}, 1, 1), k = RandomTensor({2, 5, 3}, 1, 2),
         v = RandomTensor({2, 5, 3}, 1, 3), out({2, 5, 3});
  const auto refused = [&](View to, const std::string& says) {
    try {
      state.ContinueInto({q, k, v}, context, to);
      FAIL() << "accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
    EXPECT_EQ(state.tokens(), 0);
  };
  for (const auto& [name, to] : {std::pair<std::string, View>{"q", q}, {"k", k}, {"v", v}})
    refused(to, "out: given memory that " + name + " uses too");
  refused(View(), "out: given");
  Tensor small({2, 4, 3}), doubles({2, 5, 3}, DataType::kF64);
  refused(small, "out: given f32 [2, 4, 3] on cpu, expected f32 [2, 5, 3]");
  refused(doubles, "out: given f64");
  const View elsewhere(out.view().data(), DataType::kF32, out.shape(), RowMajorStrides(out.shape()),
                       Device{.type = DeviceType::kCuda});
  refused(elsewhere, "expected f32 [2, 5, 3] on the cpu");
  const View shared(out.view().data(), DataType::kF32, out.shape(), {0, 3, 1, 0}, Device{});
  refused(shared, "out: given an array whose elements share memory");
  state.ContinueInto({q, k, v}, context, out);
  EXPECT_EQ(state.tokens(), 5);
}

TEST(State, RefusesRowsThatDoNotFit) {
  const Context context;
  AttentionState state(FeaturePlan::Draw({.features = 8}, 4, 8, 1), {.value_dim = 5});
  EXPECT_THROW(state.Append(Tensor({4, 3, 7}), Tensor({4, 3, 5}), context), Error);
  EXPECT_THROW(state.Append(Tensor({4, 3, 8}), Tensor({4, 3, 4}), context), Error);
  EXPECT_THROW(state.Append(Tensor({4, 3, 8}), Tensor({4, 2, 5}), context), Error);
  EXPECT_THROW(state.Append(Tensor({3, 3, 8}), Tensor({3, 3, 5}), context), Error);
  EXPECT_THROW(
      state.Append(Tensor({4, 3, 8}), Tensor({4, 3, 5}), context, {.key_mask = Tensor({2})}),
      Error);
  EXPECT_THROW(state.Attend(Tensor({2, 3, 8}), context), Error);
  EXPECT_THROW(state.Continue(Tensor({4, 3, 8}), Tensor({4, 2, 8}), Tensor({4, 2, 5}), context),
               Error);
  EXPECT_NO_THROW(state.Append(Tensor({2, 3, 8}), Tensor({2, 3, 5}), context));
  EXPECT_THROW(AttentionState(state.plan(), {.value_dim = 0}), Error);
  EXPECT_THROW(AttentionState(state.plan(), {.value_dim = 1, .scale = -1}), Error);
}

// Whatever happens to a file's bytes, the result is the same state or an Error, never silently
// another state.
TEST(StateFile, RefusesDamage) {
  const TempDir dir;
  AttentionState state(FeaturePlan::Draw({.features = 3}, 1, 2, 1), {.value_dim = 2});
  state.Append(RandomTensor({5, 2}, 1, 1), RandomTensor({5, 2}, 1, 2), Context());
  state.Save(dir / "s");
  const std::string good = ReadText(dir / "s");
  EXPECT_NO_THROW(AttentionState::Parse(std::as_bytes(std::span(good)), "s"));
  const Tensor q = RandomTensor({4, 2}, 1, 3), answer = state.Attend(q, Context());
  for (uint64_t trial = 0; trial < 6000; ++trial) {
    std::string bad = good;
    const RandomStream stream = RandomStream(1, "damage").Child(trial);
    const size_t at = stream.Bits(0) % bad.size();
    const auto byte = static_cast<char>(stream.Bits(1));
    if (trial % 5 == 0) {
      bad.resize(at);
    } else if (bad[at] == byte) {
      continue;
    } else {
      bad[at] = byte;
    }
    try {
      // A blank of the header's padding may become another blank: the same state.
      const AttentionState parsed = AttentionState::Parse(std::as_bytes(std::span(bad)), "s");
      EXPECT_EQ(LargestDifference(parsed.Attend(q, Context()), answer), 0) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData) << error.what();
    }
  }
  for (size_t size : {size_t{0}, size_t{7}, good.size() - 1}) {
    const std::string cut = good.substr(0, size);
    EXPECT_THROW(AttentionState::Parse(std::as_bytes(std::span(cut)), "s"), Error);
  }
}

TEST(State, KnowsWhereItBeginsAndEnds) {
  const TempDir dir;
  const Context context;
  const auto plan = FeaturePlan::Draw({.features = 8}, 1, 4, 1);
  const Tensor k = RandomTensor({5, 4}, 1, 1), v = RandomTensor({5, 3}, 1, 2);
  Tensor mask({5});
  for (const int64_t i : {0, 1, 3}) mask.Data<float>()[i] = 1;
  AttentionState first(plan, {.value_dim = 3}), second(plan, {.value_dim = 3, .begin = 5});
  first.Append(k, v, context, {.key_mask = mask});
  EXPECT_EQ(first.begin(), 0);
  EXPECT_EQ(first.end(), 5);  // masked tokens have a position too
  EXPECT_EQ(first.tokens(), 3);
  second.Continue(Rows(k, 0, 2), Rows(k, 0, 2), Rows(v, 0, 2), context);
  EXPECT_EQ(second.begin(), 5);
  EXPECT_EQ(second.end(), 7);
  first.Merge(second);
  EXPECT_EQ(first.begin(), 0);
  EXPECT_EQ(first.end(), 7);
  const std::string path = (dir.path() / "state").string();
  second.Save(path);
  EXPECT_EQ(AttentionState::Load(path).begin(), 5);
  EXPECT_EQ(AttentionState::Load(path).end(), 7);
  EXPECT_EQ(second.Clone().end(), 7);
  // A refused call does not change them.
  Tensor bad = RandomTensor({2, 4}, 1, 1);
  bad.Data<float>()[1] = NAN;
  EXPECT_THROW(second.Append(bad, Rows(v, 0, 2), context), Error);
  EXPECT_THROW(second.Continue(Rows(k, 0, 2), bad, Rows(v, 0, 2), context), Error);
  EXPECT_EQ(second.end(), 7);
}

}  // namespace
}  // namespace favor
