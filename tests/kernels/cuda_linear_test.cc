// Linear attention on a GPU against the reference, token by token in double. Skipped if there is no
// GPU.
#include <gtest/gtest.h>

#include "tests/kernels/cuda_linear.h"

namespace favor::linear_on_gpu {
namespace {

TEST_F(CudaLinear, EveryMapEqualsTheReference) {
  for (const FeatureMapInfo& map : Maps()) {
    if (map.name == "poly-sum" || map.name == "poly-sketch") continue;
    for (const bool causal : {false, true}) {
      // Signed maps may have denominators near 0, which say nothing about sums.
      const bool normalize = map.nonnegative || map.name.substr(0, 6) == "taylor";
      Case c{.map = std::string(map.name), .causal = causal, .normalize = normalize};
      if (!map.has_omega) c.dim = 8;
      c.deviation = map.kernel == KernelFamily::kGeneralized ? 1 : 0.5;
      Expect(c);
    }
  }
}

TEST_F(CudaLinear, EverySizeEqualsTheReference) {
  for (const bool causal : {false, true}) {
    Expect({.query_length = 1,
            .key_length = 1,
            .dim = 1,
            .value_dim = 1,
            .features = 1,
            .causal = causal});
    Expect({.batch = 2,
            .heads = 3,
            .kv_heads = 1,
            .query_length = 65,
            .key_length = 65,
            .dim = 5,
            .value_dim = 7,
            .features = 33,
            .causal = causal});
    Expect({.map = "hyperbolic",
            .heads = 1,
            .kv_heads = 1,
            .query_length = 130,
            .key_length = 130,
            .dim = 256,
            .value_dim = 256,
            .features = 200,
            .deviation = 0.5,
            .causal = causal});
    Expect({.heads = 1,
            .kv_heads = 1,
            .query_length = 70,
            .key_length = 70,
            .dim = 64,
            .value_dim = 3,
            .features = 1024,
            .deviation = 2,
            .causal = causal});
    Expect({.batch = 2,
            .heads = 4,
            .query_length = 333,
            .key_length = 333,
            .dim = 64,
            .value_dim = 64,
            .features = 64,
            .causal = causal,
            .masked = true});
  }
  Expect({.query_length = 300, .key_length = 77});
  Expect({.query_length = 3, .key_length = 500, .masked = true});
}

TEST_F(CudaLinear, EveryOptionEqualsTheReference) {
  for (const bool causal : {false, true}) {
    Expect({.causal = causal, .normalize = false, .masked = true});
    Expect({.causal = causal, .masked = true, .centred = true, .own_mean = true});
    Expect({.heads = 4, .causal = causal, .normalize = false, .centred = true, .own_mean = true});
    Expect({.causal = causal, .normalize = false, .centred = true});
    Expect({.map = "oprf", .causal = causal, .own_a = true});
    Expect({.map = "oprf", .causal = causal, .centred = true, .own_a = true});
    Expect({.heads = 4, .causal = causal, .add = true});
    for (const DataType type : {DataType::kBF16, DataType::kF16}) {
      Expect({.heads = 4,
              .dim = 64,
              .value_dim = 64,
              .features = 128,
              .causal = causal,
              .masked = true,
              .type = type});
    }
  }
}

TEST_F(CudaLinear, ForgettingEqualsTheReference) {
  for (const double decay : {0.01, 2.0, 60.0}) {
    for (const char* map : {"positive", "relu", "taylor", "hyperbolic"}) {
      Case c{.map = map, .causal = true, .masked = decay == 2.0, .decay = decay};
      if (c.map == "taylor") c.dim = 6;
      Expect(c);
      c.normalize = false;
      Expect(c);
    }
  }
  Expect({.heads = 4, .kv_heads = 2, .deviation = 4, .causal = true, .decay = 0.5});
  // Packed sequences: ℓ = −1e6 at a few places.
  const Case c{.query_length = 300, .key_length = 300, .causal = true, .decay = 0.1};
  Arrays arrays(c);
  for (const int64_t row : {0, 1, 63, 64, 100, 299}) arrays.log_decay.Data<double>()[row] = -1e6;
  Expect(c, arrays, 1e-4);
}

TEST_F(CudaLinear, IsExactAtAnyNorm) {
  for (const bool causal : {false, true}) {
    for (const double deviation : {0.1, 2.0, 4.0, 8.0, 30.0}) {
      const Case c{.query_length = 400,
                   .key_length = 400,
                   .dim = 64,
                   .value_dim = 16,
                   .features = 128,
                   .deviation = deviation,
                   .causal = causal};
      // Exponents near 4000 are known within 2⁻¹³ only.
      Expect(c, Arrays(c), deviation > 8 ? 1e-3 : 1e-4);
    }
  }
}

// A key of zeros has the largest exponent of every feature if all others are long.
TEST_F(CudaLinear, AKeyThatDominatesHidesNothingBeforeIt) {
  const Case c{.heads = 1,
               .kv_heads = 1,
               .query_length = 300,
               .key_length = 300,
               .dim = 64,
               .features = 64,
               .deviation = 8,
               .causal = true};
  for (const int64_t place : {40, 63, 64, 201, 299}) {
    Arrays arrays(c);
    std::fill_n(arrays.k.Data<float>() + place * c.dim, c.dim, 0.0f);
    Expect(c, arrays, 1e-4);
  }
  Arrays growing(c), shrinking(c);
  for (int64_t i = 0; i < c.key_length * c.dim; ++i) {
    const float part = static_cast<float>(i / c.dim) / static_cast<float>(c.key_length);
    growing.k.Data<float>()[i] *= part;
    shrinking.k.Data<float>()[i] *= 1 - part;
  }
  Expect(c, growing, 1e-4);
  Expect(c, shrinking, 1e-4);
  // Signed maps with one exponent for all features, whose denominators tell nothing.
  Case signed_map = c;
  signed_map.map = "trigonometric";
  signed_map.deviation = 0.4;
  Arrays one_long(signed_map);
  for (int64_t i = 0; i < c.dim; ++i) one_long.k.Data<float>()[201 * c.dim + i] *= 30;
  // Gradients of rows with one key are differences of large numbers.
  Expect(signed_map, one_long, 1e-4, /*gradient_bound=*/2e-2);
}

TEST_F(CudaLinear, CountsRowsLikeTheReference) {
  for (const bool causal : {false, true}) {
    const Case c{.map = "identity", .causal = causal};
    const Arrays arrays(c);
    const Results want = Call(c, arrays, c.Plan(), cpu_).Run(), got = OnGpu(c, arrays);
    EXPECT_GT(want.tally.nonpositive, 0);
    EXPECT_EQ(got.tally.nonpositive, want.tally.nonpositive);
    EXPECT_EQ(got.tally.unusable, want.tally.unusable);
    Expect({.map = "identity", .causal = causal, .least_denominator = 30});
  }
  Case c{.masked = true};
  Arrays arrays(c);
  arrays.q.Data<float>()[5] = NAN;
  arrays.k.Data<float>()[0] = NAN;  // it does not exist
  arrays.v.Data<float>()[100 * c.value_dim] = 1e31f;
  arrays.mask.Data<float>()[100] = 1;
  Call call(c, arrays, c.Plan(), *context_);
  kernels::CountUnusable({.problem = call.problem(), .key_mean = {}, .tally = call.tally().At()},
                         *context_);
  EXPECT_EQ(call.tally().Read()[0].unusable, 2);
  Tensor with_nan = Draw({3, 5, 9}, "x", 1, DataType::kF32);
  with_nan.Data<float>()[20] = INFINITY;
  with_nan = with_nan.To(kGpu);
  call.tally().Clear();
  kernels::CountNotFinite({.array = with_nan, .tally = call.tally().At()}, *context_);
  EXPECT_EQ(call.tally().Read()[0].unusable, 1);
}

TEST_F(CudaLinear, GivesTheSameBitsFromRunToRun) {
  for (const bool causal : {false, true}) {
    const Case c{.batch = 2,
                 .heads = 4,
                 .query_length = 1000,
                 .key_length = 1000,
                 .dim = 64,
                 .value_dim = 64,
                 .features = 128,
                 .causal = causal,
                 .decay = causal ? 0.1 : 0.0};
    const Arrays arrays(c);
    const Results first = OnGpu(c, arrays);
    for (int run = 0; run < 3; ++run) {
      const Results again = OnGpu(c, arrays);
      for (const auto part : {&Results::out, &Results::log_sum, &Results::grad_q, &Results::grad_k,
                              &Results::grad_v, &Results::grad_log_decay}) {
        const Tensor &a = first.*part, &b = again.*part;
        if (a.empty()) continue;
        EXPECT_EQ(std::memcmp(a.Data<double>(), b.Data<double>(), static_cast<size_t>(a.Bytes())),
                  0);
      }
    }
  }
}

// Keys that join piece by piece, queries that read, and calls that continue: as the reference does
// in one call.
TEST_F(CudaLinear, StatesContinue) {
  for (const double decay : {0.0, 0.3}) {
    const Case c{.batch = 2,
                 .heads = 4,
                 .dim = 24,
                 .value_dim = 20,
                 .deviation = 2,
                 .causal = true,
                 .masked = true,
                 .decay = decay};
    const Arrays arrays(c);
    const FeaturePlan plan = c.Plan();
    Call want(c, arrays, plan, cpu_), got(c, arrays, plan, *context_);
    Tensor want_out = want.Zeros({c.batch, c.heads, 200, c.value_dim}, DataType::kF64),
           got_out = got.Zeros(want_out.shape(), DataType::kF32);
    const int64_t width = got.Constants().width();
    const StateTensors want_states(8, width, c.value_dim), states(8, width, c.value_dim, *context_),
        appended(8, width, c.value_dim, *context_);
    kernels::LinearAttention({.call = {.problem = want.problem(),
                                       .out = want_out,
                                       .log_sum = {},
                                       .tally = want.tally().At()},
                              .heads = want.Heads(),
                              .states = want_states.views()},
                             cpu_);
    const std::vector<int64_t> cuts = {0, 1, 4, 5, 80, 200};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const AttentionProblem part = PartOf(got.problem(), cuts[i], cuts[i + 1]);
      const View out = View(got_out).Range(2, cuts[i], cuts[i + 1] - cuts[i]);
      kernels::LinearArguments arguments{
          .call = {.problem = part, .out = out, .log_sum = {}, .tally = got.tally().At()},
          .heads = got.Heads(),
          .states = states.views()};
      kernels::LinearAttention(arguments, *context_);
      arguments.states = appended.views();
      kernels::LinearAppend(arguments, *context_);
    }
    context_->Wait();
    EXPECT_LE(RelativeError(InDouble(got_out), want_out), 1e-4);
    for (const StateTensors* own : {&states, &appended}) {
      const StateTensors on_cpu = own->To(Device{});
      const kernels::PrefixStates a = on_cpu.views(), b = want_states.views();
      for (int64_t group = 0; group < 8; ++group) {
        const kernels::PrefixState x = a.At(group), y = b.At(group);
        EXPECT_EQ(*x.tokens, *y.tokens);
        EXPECT_NEAR(*x.log_decay, *y.log_decay, 1e-6 * (1 + std::fabs(*y.log_decay)));
        for (int64_t r = 0; r < width; ++r) {
          const auto at = static_cast<size_t>(r);
          EXPECT_NEAR(x.z[at] * std::exp(x.c[at] - y.c[at]), y.z[at], 1e-4 * y.z[at]);
        }
      }
    }
    // Reading: a few rows, and all, as parts and as rows of output.
    Case read = c;
    read.causal = false;
    for (const int64_t rows : {int64_t{3}, int64_t{200}}) {
      AttentionProblem queries = PartOf(got.problem(), 0, rows);
      queries.causal = false;
      queries.log_decay = {};
      AttentionProblem exact = PartOf(want.problem(), 0, rows);
      exact.causal = false;
      exact.log_decay = {};
      const Shape shape({c.batch, c.heads, rows, c.value_dim});
      Tensor read_out = got.Zeros(shape, DataType::kF32), exact_out(shape);
      Tensor log_scale = got.Zeros({8, rows}, DataType::kF64),
             numerator = got.Zeros({8, rows, c.value_dim}, DataType::kF64),
             denominator = got.Zeros({8, rows}, DataType::kF64);
      kernels::LinearRead(
          {.call = {.problem = exact, .out = exact_out, .log_sum = {}, .tally = want.tally().At()},
           .heads = want.Heads(),
           .states = want_states.views()},
          cpu_);
      kernels::LinearArguments arguments{
          .call = {.problem = queries, .out = read_out, .log_sum = {}, .tally = got.tally().At()},
          .heads = got.Heads(),
          .states = states.views()};
      kernels::LinearRead(arguments, *context_);
      context_->Wait();
      EXPECT_LE(RelativeError(InDouble(read_out), InDouble(exact_out)), 1e-4) << rows;
      const kernels::AttentionArguments parts{
          .problem = queries,
          .out = read_out,
          .log_sum = {},
          .tally = got.tally().At(),
          .parts = {.log_scale = log_scale, .numerator = numerator, .denominator = denominator}};
      kernels::LinearRead({.call = parts, .heads = got.Heads(), .states = states.views()},
                          *context_);
      context_->Wait();
      Tensor divided = InDouble(numerator);
      const Tensor by = InDouble(denominator);
      for (int64_t i = 0; i < divided.shape().Elements(); ++i)
        divided.Data<double>()[i] /= by.Data<double>()[i / c.value_dim];
      EXPECT_LE(RelativeError(divided, InDouble(exact_out)), 1e-4) << rows;
    }
  }
}

TEST_F(CudaLinear, AMillionEqualKeysDoNotDrift) {
  constexpr int64_t kLength = int64_t{1} << 18, kSingles = 500;
  const Case c{.heads = 1,
               .kv_heads = 1,
               .query_length = kLength,
               .key_length = kLength,
               .dim = 8,
               .value_dim = 4,
               .features = 16};
  Arrays arrays(c);
  for (int64_t row = 1; row < kLength; ++row) {
    std::copy_n(arrays.k.Data<float>(), c.dim, arrays.k.Data<float>() + row * c.dim);
    std::copy_n(arrays.v.Data<float>(), c.value_dim, arrays.v.Data<float>() + row * c.value_dim);
  }
  Call call(c, arrays, c.Plan(), *context_);
  const StateTensors states(1, 16, c.value_dim, *context_);
  Tensor out = call.Zeros({1, 1, 1, c.value_dim}, DataType::kF32);
  const AttentionProblem one = PartOf(call.problem(), 0, 1);
  const auto append = [&](const AttentionProblem& problem) {
    kernels::LinearAppend(
        {.call = {.problem = problem, .out = out, .log_sum = {}, .tally = call.tally().At()},
         .heads = call.Heads(),
         .states = states.views()},
        *context_);
  };
  for (int time = 0; time < 4; ++time) append(call.problem());
  for (int64_t i = 0; i < kSingles; ++i) append(one);
  context_->Wait();
  const StateTensors on_cpu = states.To(Device{});
  const kernels::PrefixState state = on_cpu.views().At(0);
  const double tokens = 4.0 * kLength + kSingles;
  EXPECT_EQ(*state.tokens, tokens);
  for (int64_t r = 0; r < 16; ++r) {
    EXPECT_NEAR(state.z[static_cast<size_t>(r)] / tokens, 1, 2e-6);
    for (int64_t v = 0; v < c.value_dim; ++v)
      EXPECT_NEAR(state.s[r * c.value_dim + v] / tokens, arrays.v.Data<float>()[v], 1e-5);
  }
}

TEST_F(CudaLinear, RefusesInOneLine) {
  const auto error_of = [&](const Case& c, int64_t window) -> std::string {
    const Arrays arrays(c);
    Call call(c, arrays, c.Plan(), *context_);
    AttentionProblem problem = call.problem();
    problem.window = window;
    Tensor out = call.Zeros({c.batch, c.heads, c.query_length, c.value_dim}, DataType::kF32);
    try {
      kernels::LinearAttention(
          {.call = {.problem = problem, .out = out, .log_sum = {}, .tally = call.tally().At()},
           .heads = call.Heads()},
          *context_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of({}, 3).find("windows run on the cpu only"), std::string::npos);
  EXPECT_NE(error_of({.map = "poly-sketch"}, -1).find("the map 'poly-sketch' runs on the cpu only"),
            std::string::npos);
  EXPECT_NE(error_of({.dim = 300}, -1).find("at most 256"), std::string::npos);
}

}  // namespace
}  // namespace favor::linear_on_gpu
