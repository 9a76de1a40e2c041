// Gradient calls that are refused, and their errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "favor/error.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

class RefusedGradients : public testing::Test {
 protected:
  void Expect(const std::function<void()>& call, ErrorCode code, const std::string& says) const {
    try {
      call();
      FAIL() << "accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
  void Backward(ConstView result, ConstView gradient, const AttentionTrace* trace = nullptr) const {
    AttendBackward({q, k, v, result, gradient}, options, context, trace);
  }

  const Context context;
  AttentionOptions options{.features = {.features = 8}};
  Tensor q = RandomTensor({2, 9, 4}, 1, 1), k = RandomTensor({2, 9, 4}, 1, 2),
         v = RandomTensor({2, 9, 3}, 1, 3), grad_out = RandomTensor({2, 9, 3}, 1, 4);
  Tensor out = Attend(q, k, v, options, context);
};

constexpr ErrorCode kData = ErrorCode::kInvalidData, kOption = ErrorCode::kInvalidOption;

TEST_F(RefusedGradients, OfAWrongShape) {
  Expect(
      [&] {
        Backward(out, Tensor({2, 9, 4}));
      },
      kData, "grad_out: given shape [2, 9, 4], expected [2, 9, 3]");
  Expect([&] { Backward(Tensor({9, 3}), grad_out); }, kData, "out: given shape [9, 3]");
  Expect([&] { Backward(out, ConstView()); }, kData, "grad_out: given shape");
  Tensor grad_q({2, 9, 4}), grad_k({2, 8, 4}), grad_v({2, 9, 3});
  Expect(
      [&] {
        AttendBackwardInto({q, k, v, out, grad_out}, options, context, nullptr,
                           {grad_q, grad_k, grad_v});
      },
      kData, "grad_k: given f32 [2, 8, 4] on cpu, expected f32 [2, 9, 4]");
  Tensor doubles({2, 9, 4}, DataType::kF64), fits({2, 9, 4});
  Expect(
      [&] {
        AttendBackwardInto({q, k, v, out, grad_out}, options, context, nullptr,
                           {doubles, fits, grad_v});
      },
      kData, "grad_q: given f64");
}

TEST_F(RefusedGradients, ThatShareMemory) {
  Tensor a({2, 9, 4}), b({2, 9, 4}), c({2, 9, 3});
  const auto into = [&](View grad_q, View grad_k, View grad_v) {
    AttendBackwardInto({q, k, v, out, grad_out}, options, context, nullptr,
                       {grad_q, grad_k, grad_v});
  };
  Expect([&] { into(a, a, c); }, kData, "grad_k: given memory that grad_q uses too");
  Expect([&] { into(q, b, c); }, kData, "grad_q: given memory that q uses too");
  Expect([&] { into(a, b, grad_out); }, kData, "grad_v: given memory that grad_out uses too");
  const View zero_stride(a.view().data(), DataType::kF32, {2, 9, 4}, {0, 4, 1, 0}, Device{});
  Expect([&] { into(zero_stride, b, c); }, kData, "grad_q: given an array whose elements share");
  Expect(
      [&] {
        AttendInto({q, k, v}, options, context, v);
      },
      kData, "out: given memory that v uses too");
  Expect([&] { AttendInto({q, k, v}, options, context, a); }, kData, "out: given f32 [2, 9, 4]");
  into(a, b, c);  // without overlap it is accepted
}

TEST_F(RefusedGradients, OfAnotherCall) {
  AttentionTrace trace, empty;
  Attend(q, k, v, options, context, {.trace = &trace});
  Backward(out, grad_out, &trace);
  Expect([&] { Backward(out, grad_out, &empty); }, kData, "a trace that no call has filled");
  options.causal = true;
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "causal differs");
  options.causal = false;
  options.renormalize = false;
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "renormalize differs");
  options.renormalize = true;
  options.scale = 0.1;
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "the scale differs");
  options = {.attention = "exact"};
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "the kind of attention differs");
}

TEST_F(RefusedGradients, OfATraceThatDoesNotFit) {
  AttentionTrace trace;
  options.chunk = 0;
  Expect([&] { Attend(q, k, v, options, context, {.trace = &trace}); }, kOption, "chunk");
  Expect([&] { Backward(out, grad_out, &trace); }, kOption, "chunk");
  options.chunk = 60;
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "no call has filled");
  Tensor bad = q.Clone();
  bad.Data<float>()[3] = NAN;
  Expect([&] { Attend(bad, k, v, options, context, {.trace = &trace}); }, kData, "NaN");
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "no call has filled");
  Attend(q, k, v, options, context, {.trace = &trace});
  options.center_keys = true;
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "key centring differs");
  options.center_keys = false;
  Tensor mask({9});
  options.key_mask = mask;
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "the key mask differs");
  options.key_mask = {};
  options.plan = FeaturePlan::Draw({.map = "relu", .features = 8}, 2, 4, 0);
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "the plan differs");
  options.plan.reset();
  AttentionTrace moved = std::move(trace);
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "no call has filled");
  Backward(out, grad_out, &moved);
  Attend(q, k, v, options, context, {.trace = &trace});  // it can be filled again
  Backward(out, grad_out, &trace);
}

// Unnormalised sums may be in range while their gradients are not.
TEST_F(RefusedGradients, OfUnnormalisedSumsBeyondFloats) {
  for (const char* kind : {"linear", "exact"}) {
    for (const bool causal : {false, true}) {
      AttentionOptions large{.attention = kind, .causal = causal, .renormalize = false};
      if (large.attention == "linear") {
        large.features = {.map = "exp", .projection = "none", .features = 4, .kernel_epsilon = 0};
        large.scale = 1;
      } else {
        large.scale = 1;
      }
      Tensor one({1, 4}), small({1, 3}), result({1, 3});
      std::fill_n(one.Data<float>(), 4, kind[0] == 'l' ? 50.0f : 4.9f);  // K = 4·e^100, e^96
      std::fill_n(small.Data<float>(), 3, 1e-12f);
      const Tensor gradient = RandomTensor({1, 3}, 1, 4);
      Expect(
          [&] {
            AttendBackward({one, one, small, result, gradient}, large, context);
          },
          kData, "exceeds the range of f32");
    }
  }
}

TEST_F(RefusedGradients, OfAnUnknownKind) {
  options = {.attention = "uniforme"};
  Expect([&] { Backward(out, grad_out); }, kOption,
         "unknown name 'uniforme' (did you mean 'uniform'?)");
}

TEST_F(RefusedGradients, ThatDoNotExist) {
  options.compat = Compat::kJax;
  Expect([&] { Backward(out, grad_out); }, kOption, "compat, which has no gradients");
  AttentionTrace trace;
  Expect([&] { Attend(q, k, v, options, context, {.trace = &trace}); }, kOption, "compat");
}

TEST_F(RefusedGradients, OfNumbersOutOfRange) {
  for (const char* kind : {"linear", "exact", "identity", "uniform"}) {
    AttentionOptions kinds{.attention = kind};
    const Tensor result = Attend(q, k, v, kinds, context);
    Tensor bad = grad_out.Clone();
    bad.Data<float>()[20] = NAN;
    Expect(
        [&] {
          AttendBackward({q, k, v, result, bad}, kinds, context);
        },
        kData, "grad_out: given NaN or infinity in row 6");
  }
  for (const char* kind : {"identity", "uniform"}) {
    const AttentionOptions sums{.attention = kind, .renormalize = false};
    Tensor bad = grad_out.Clone();
    bad.Data<float>()[20] = NAN;
    Expect(
        [&] {
          AttendBackward({q, k, v, out, bad}, sums, context);
        },
        kData, "grad_out: given NaN");
  }
  Tensor huge = grad_out.Clone();
  huge.Data<float>()[0] = 2e38f;
  Expect([&] { Backward(out, huge); }, kData, "grad_out: given values up to 2e+38");
  q.Data<float>()[5] = INFINITY;
  Expect([&] { Backward(out, grad_out); }, kData, "q: given NaN or infinity in row 1");
}

// q, k and v as slices of one array, and gradients as slices of another.
TEST_F(RefusedGradients, AreNotThoseOfInterleavedSlices) {
  const int64_t heads = 2, length = 70, d = 4;
  const Tensor packed = RandomTensor({length, 3 * heads * d}, 1, 9);
  Tensor grad_packed({length, 3 * heads * d});
  const auto slice = [&](auto* data, int64_t part) {
    return BasicView<!std::is_const_v<std::remove_pointer_t<decltype(data)>>>(
        data + part * heads * d, DataType::kF32, {heads, length, d}, {d, 3 * heads * d, 1, 0},
        Device{});
  };
  const float* data = packed.Data<float>();
  const ConstView sq = slice(data, 0), sk = slice(data, 1), sv = slice(data, 2);
  Tensor dense_q({heads, length, d}), dense_k = dense_q.Clone(), dense_v = dense_q.Clone();
  Copy(sq, dense_q);
  Copy(sk, dense_k);
  Copy(sv, dense_v);
  const Tensor gradient = RandomTensor({heads, length, d}, 1, 4);
  for (const char* kind : {"linear", "exact"}) {
    const AttentionOptions same{.attention = kind, .causal = true};
    const Tensor result = Attend(sq, sk, sv, same, context);
    EXPECT_EQ(LargestDifference(result, Attend(dense_q, dense_k, dense_v, same, context)), 0);
    float* to = grad_packed.Data<float>();
    AttendBackwardInto({sq, sk, sv, result, gradient}, same, context, nullptr,
                       {slice(to, 0), slice(to, 1), slice(to, 2)});
    const AttentionGradients want =
        AttendBackward({dense_q, dense_k, dense_v, result, gradient}, same, context);
    Tensor got({heads, length, d});
    Copy(slice(data, 0), got);
    Copy(ConstView(slice(to, 0)), got);
    EXPECT_EQ(LargestDifference(got, want.q), 0);
    Copy(ConstView(slice(to, 1)), got);
    EXPECT_EQ(LargestDifference(got, want.k), 0);
    Copy(ConstView(slice(to, 2)), got);
    EXPECT_EQ(LargestDifference(got, want.v), 0);
  }
}

// Features of maps without exponents are plain floats: if all of them are tiny, the weights of
// gradients, their inverses, leave the range of floats. Before that the gradients are right.
TEST_F(RefusedGradients, OfFeaturesTooSmallForFloats) {
  options.features = {.map = "elu", .projection = "none", .kernel_epsilon = 0.0};
  const auto shift = [](const Tensor& from, float by) {
    Tensor to = from.Clone();
    for (int64_t i = 0; i < to.shape().Elements(); ++i) to.Data<float>()[i] += by;
    return to;
  };
  for (const bool causal : {false, true}) {
    options.causal = causal;
    const Tensor near_q = shift(q, -40), near_k = shift(k, -40);
    AttentionOptions reference = options;
    reference.reference = true;
    const Tensor result = Attend(near_q, near_k, v, options, context),
                 exact = Attend(near_q, near_k, v, reference, context);
    const AttentionGradients fast =
        AttendBackward({near_q, near_k, v, result, grad_out}, options, context);
    const AttentionGradients slow =
        AttendBackward({near_q, near_k, v, exact, grad_out}, reference, context);
    for (int64_t i = 0; i < fast.k.shape().Elements(); ++i)
      EXPECT_NEAR(fast.k.Data<float>()[i], slow.k.Data<double>()[i], 1e-5);
    const Tensor far_q = shift(q, -61), far_k = shift(k, -61);
    const Tensor far = Attend(far_q, far_k, v, options, context);
    Expect(
        [&] {
          AttendBackward({far_q, far_k, v, far, grad_out}, options, context);
        },
        kData, "range");
  }
}

// Same map, same number of features, another ω.
TEST_F(RefusedGradients, WithATraceOfAnotherOmega) {
  const auto plan = [&](uint64_t seed) { return FeaturePlan::Draw(options.features, 2, 4, seed); };
  options.plan = plan(1);
  AttentionTrace trace;
  out = Attend(q, k, v, options, context, {.trace = &trace});
  options.plan = plan(2);
  Expect([&] { Backward(out, grad_out, &trace); }, kData, "the plan differs");
  options.plan = plan(1);  // drawn again: the same numbers
  Backward(out, grad_out, &trace);
  options.plan.reset();
  const Context other({.seed = 7});
  AttentionTrace drawn;
  out = Attend(q, k, v, options, other, {.trace = &drawn});
  Expect([&] { Backward(out, grad_out, &drawn); }, kData, "the seed of ω differs");
  AttendBackward({q, k, v, out, grad_out}, options, other, &drawn);
}

}  // namespace
}  // namespace favor
