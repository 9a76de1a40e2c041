// Gradients of every kind of attention: the reference against central differences, the fast kernels
// on every SIMD target against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/context_impl.h"
#include "core/simd.h"
#include "favor/favor.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

// One call with gradients: shapes, options and arrays.
struct Case {
  std::string attention = "linear", map = "positive";
  bool causal = false, masked = false, cross = false, grouped = false, normalize = true;
  bool centred = false, frozen_mean = false;
  int64_t length = 9, dim = 6, value_dim = 5, features = 8;
  double deviation = 0.9;

  std::string Name() const {
    std::string name = attention == "linear" ? map : attention;
    name += causal ? " causal" : "";
    name += masked ? " masked" : "";
    name += cross ? " cross" : "";
    name += grouped ? " grouped" : "";
    name += normalize ? "" : " unnormalised";
    return name + (centred ? frozen_mean ? " centred on a frozen mean" : " centred" : "");
  }
};

class Call {
 public:
  explicit Call(const Case& c)
      : heads_(c.grouped ? 4 : 2),
        kv_heads_(c.grouped ? 2 : heads_),
        keys_(c.cross ? c.length + 4 : c.length),
        q(RandomTensor({2, heads_, c.length, c.dim}, c.deviation, 1)),
        k(RandomTensor({2, kv_heads_, keys_, c.dim}, c.deviation, 2)),
        v(RandomTensor({2, kv_heads_, keys_, c.value_dim}, 1, 3)),
        grad_out(RandomTensor({2, heads_, c.length, c.value_dim}, 1, 4)),
        mask_({2, kv_heads_, keys_}),
        mean_(RandomTensor({heads_, c.dim}, 0.4, 5)) {
    options = {.attention = c.attention, .causal = c.causal, .renormalize = c.normalize};
    if (c.attention == "linear") {
      FeatureOptions features{.map = c.map, .features = c.features};
      if (c.map == "oprf") features.oprf_a = {-0.1};
      options.plan = FeaturePlan::Draw(features, heads_, c.dim, 7);
      options.center_keys = c.centred;
      if (c.frozen_mean) options.key_mean = mean_;
    }
    // The first key is masked too: a causal row then sees none.
    for (int64_t i = 0; i < mask_.shape().Elements(); ++i)
      mask_.Data<float>()[i] = i % keys_ == 0 || i % 3 == 1 ? 0.0f : 1.0f;
    if (c.masked) options.key_mask = mask_;
  }

  Tensor Forward(const Context& context) const { return Attend(q, k, v, options, context); }
  AttentionGradients Gradients(const Context& context) const {
    AttentionRecord record;
    const bool reference = options.reference;
    Tensor out({2, heads_, q.shape()[2], v.shape()[3]},
               reference ? DataType::kF64 : DataType::kF32);
    AttendInto(q, k, v, options, context, out, nullptr, &record);
    return AttendBackward(q, k, v, out, grad_out, options, context, &record);
  }
  // Σ grad_out·out, in double.
  double Loss(const Context& context) const {
    const Tensor out = Forward(context);
    double sum = 0;
    for (int64_t i = 0; i < out.shape().Elements(); ++i)
      sum += out.Data<double>()[i] * grad_out.Data<float>()[i];
    return sum;
  }

 private:
  int64_t heads_, kv_heads_, keys_;

 public:
  Tensor q, k, v, grad_out;
  AttentionOptions options;

 private:
  Tensor mask_, mean_;
};

double Largest(const Tensor& tensor) { return LargestAbsolute(tensor); }

// The largest difference of two gradients, relative to the largest gradient.
double RelativeError(const Tensor& got, const Tensor& want) {
  return LargestDifference(got, want) / std::max(Largest(want), 1e-30);
}

void CheckAgainstDifferences(const Case& c) {
  SCOPED_TRACE(c.Name());
  const Context context({.threads = 1});
  Call call(c);
  call.options.reference = true;
  call.q = call.q.To(DataType::kF64);
  call.k = call.k.To(DataType::kF64);
  call.v = call.v.To(DataType::kF64);
  const AttentionGradients gradients = call.Gradients(context);
  const auto check = [&](Tensor& x, const Tensor& gradient, const char* name) {
    Tensor differences(x.shape(), DataType::kF64);
    const double step = 2e-6;
    for (int64_t i = 0; i < x.shape().Elements(); ++i) {
      const double value = x.Data<double>()[i];
      x.Data<double>()[i] = value + step;
      const double up = call.Loss(context);
      x.Data<double>()[i] = value - step;
      const double down = call.Loss(context);
      x.Data<double>()[i] = value;
      differences.Data<double>()[i] = (up - down) / (2 * step);
    }
    EXPECT_LT(LargestDifference(gradient, differences), 1e-6 * (Largest(differences) + 1e-2))
        << name;
  };
  check(call.q, gradients.q, "q");
  check(call.k, gradients.k, "k");
  check(call.v, gradients.v, "v");
}

// Every way to call, for one map.
std::vector<Case> Ways(const std::string& attention, const std::string& map) {
  std::vector<Case> ways;
  for (const bool causal : {false, true}) {
    const Case plain{.attention = attention, .map = map, .causal = causal};
    ways.push_back(plain);
    const auto add = [&](const std::function<void(Case&)>& change) {
      ways.push_back(plain);
      change(ways.back());
    };
    add([](Case& c) { c.masked = true; });
    if (!causal) add([](Case& c) { c.cross = true; });
    add([](Case& c) { c.grouped = true; });
    add([](Case& c) { c.normalize = false; });
    add([](Case& c) {
      c.grouped = c.masked = true;
      c.normalize = false;
    });
  }
  return ways;
}

std::vector<Case> CentredWays(const std::string& map) {
  std::vector<Case> ways;
  for (const bool normalize : {true, false}) {
    const Case frozen{.map = map, .normalize = normalize, .centred = true, .frozen_mean = true};
    ways.push_back(frozen);
    ways.push_back(frozen);
    ways.back().causal = true;
    ways.push_back(frozen);
    ways.back().frozen_mean = false;
    ways.push_back(ways.back());
    ways.back().grouped = ways.back().masked = true;
  }
  return ways;
}

class MapGradients : public testing::TestWithParam<std::string> {};

TEST_P(MapGradients, OfTheReferenceAreCentralDifferences) {
  for (const Case& way : Ways("linear", GetParam())) CheckAgainstDifferences(way);
}

// Sizes with remainders of vectors, tiles and chunks.
TEST_P(MapGradients, OfTheFastKernelsAreThoseOfTheReferenceOnEverySimdTarget) {
  const Context context({.threads = 2});
  for (Case way : Ways("linear", GetParam())) {
    SCOPED_TRACE(way.Name());
    way.length = 150;
    way.dim = 19;
    way.value_dim = 21;
    way.features = 37;
    way.deviation = 0.7;
    Call call(way);
    call.options.reference = true;
    const AttentionGradients want = call.Gradients(context);
    call.options.reference = false;
    for (const std::string& simd : SimdNames()) {
      UseSimd(simd);
      const AttentionGradients got = call.Gradients(context);
      // Denominators of signed maps can be small, and rounding grows with them.
      const auto& info = call.options.plan->map();
      const double bound = info.nonnegative || !way.normalize ? 1e-5 : 1e-3;
      EXPECT_LT(RelativeError(got.q, want.q), bound) << simd;
      EXPECT_LT(RelativeError(got.k, want.k), bound) << simd;
      EXPECT_LT(RelativeError(got.v, want.v), bound) << simd;
    }
    UseSimd(SimdNames().front());
  }
}

std::vector<std::string> MapNames() {
  std::vector<std::string> names;
  for (const FeatureMapInfo& info : Maps()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Maps, MapGradients, testing::ValuesIn(MapNames()), [](const auto& test) {
  std::string name = test.param;
  std::erase(name, '-');
  return name;
});

TEST(Gradients, OfCentredKeysAreCentralDifferences) {
  for (const char* map : {"positive", "trigonometric", "hyperbolic"}) {
    for (const Case& way : CentredWays(map)) CheckAgainstDifferences(way);
  }
}

TEST(Gradients, OfCentredKeysInFloatAreThoseOfTheReference) {
  const Context context;
  for (Case way : CentredWays("positive")) {
    SCOPED_TRACE(way.Name());
    way.length = 140;
    Call call(way);
    const AttentionGradients got = call.Gradients(context);
    call.options.reference = true;
    const AttentionGradients want = call.Gradients(context);
    EXPECT_LT(RelativeError(got.q, want.q), 1e-5);
    EXPECT_LT(RelativeError(got.k, want.k), 1e-5);
    EXPECT_LT(RelativeError(got.v, want.v), 1e-5);
  }
}

TEST(Gradients, OfExactAttentionAndBaselinesAreCentralDifferences) {
  for (const char* kind : {"exact", "identity", "uniform"}) {
    for (const Case& way : Ways(kind, "")) {
      if (way.cross && way.attention == "identity") continue;
      CheckAgainstDifferences(way);
    }
  }
}

TEST(Gradients, OfFastExactAttentionAreThoseOfTheReferenceOnEverySimdTarget) {
  const Context context({.threads = 2});
  for (const char* kind : {"exact", "identity", "uniform"}) {
    for (Case way : Ways(kind, "")) {
      if (way.cross && way.attention == "identity") continue;
      SCOPED_TRACE(way.Name());
      way.length = 333;
      way.dim = 19;
      way.value_dim = 21;
      Call call(way);
      call.options.reference = true;
      const AttentionGradients want = call.Gradients(context);
      call.options.reference = false;
      for (const std::string& simd : SimdNames()) {
        UseSimd(simd);
        const AttentionGradients got = call.Gradients(context);
        EXPECT_LT(LargestDifference(got.q, want.q), 1e-5 * (Largest(want.q) + 1e-9)) << simd;
        EXPECT_LT(LargestDifference(got.k, want.k), 1e-5 * (Largest(want.k) + 1e-9)) << simd;
        EXPECT_LT(RelativeError(got.v, want.v), 1e-5) << simd;
      }
      UseSimd(SimdNames().front());
    }
  }
}

// Σ_r dQ'_r Q'_r = 0 under normalisation. With u = x and φ = e^u it is the sum over a row of dq.
TEST(Gradients, DoNotMoveAlongAConstantOfTheQueryExponents) {
  const Context context;
  for (const bool causal : {false, true}) {
    const Tensor q = RandomTensor({200, 16}, 1, 1), k = RandomTensor({200, 16}, 1, 2),
                 v = RandomTensor({200, 8}, 1, 3), grad_out = RandomTensor({200, 8}, 1, 4);
    AttentionOptions options{.causal = causal};
    options.features = {.map = "exp", .projection = "none", .features = 16, .kernel_epsilon = 0};
    const Tensor out = Attend(q, k, v, options, context);
    const AttentionGradients gradients = AttendBackward(q, k, v, out, grad_out, options, context);
    // Rounding is of the terms that cancel: δ against dO·v, which are of order 1.
    for (int64_t row = 0; row < 200; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < 16; ++i) sum += gradients.q.Data<float>()[row * 16 + i];
      EXPECT_LE(std::fabs(sum), 2e-6) << row;
    }
    EXPECT_GT(Largest(gradients.q), 0.01);
  }
}

// A key that dwarfs all before it splits the chunk; large norms must not over- or underflow. Signed
// maps have denominators that cancel, so that rounding weighs more.
TEST(Gradients, SurviveLargeAndJumpingNorms) {
  const Context context;
  struct Norms {
    const char* map;
    double deviation, bound;
  };
  for (const auto& [map, deviation, bound] :
       {Norms{"positive", 2, 1e-4}, Norms{"positive", 4, 1e-4}, Norms{"positive", 8, 1e-4},
        Norms{"hyperbolic", 2, 1e-4}, Norms{"hyperbolic", 8, 1e-4},
        Norms{"trigonometric", 0.7, 1e-2}}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::string(map) + " " + std::to_string(deviation) + (causal ? " causal" : ""));
      Case way{.map = map, .causal = causal, .length = 130, .dim = 32, .features = 64};
      way.deviation = deviation;
      Call call(way);
      // A key along ω_3 and of its length dominates feature 3 of head 0.
      const Tensor omega = call.options.plan->Omega();
      for (int64_t i = 0; i < 32; ++i) {
        call.k.Data<float>()[70 * 32 + i] =
            static_cast<float>(std::pow(32.0, 0.25) * 3) * omega.Data<float>()[3 * 32 + i];
      }
      const AttentionGradients got = call.Gradients(context);
      call.options.reference = true;
      const AttentionGradients want = call.Gradients(context);
      EXPECT_LT(RelativeError(got.q, want.q), bound);
      EXPECT_LT(RelativeError(got.k, want.k), bound);
      EXPECT_LT(RelativeError(got.v, want.v), bound);
    }
  }
}

// Long enough to be cut into blocks, and with enough heads not to be.
TEST(Gradients, OfBlocksAreThoseOfOneBlock) {
  const Context context({.threads = 3});
  for (const bool causal : {false, true}) {
    const Tensor q = RandomTensor({1, 9000, 8}, 1, 1), k = RandomTensor({1, 9000, 8}, 1, 2),
                 v = RandomTensor({1, 9000, 4}, 1, 3), grad_out = RandomTensor({1, 9000, 4}, 1, 4);
    AttentionOptions options{.causal = causal};
    options.plan = FeaturePlan::Draw({.features = 16}, 1, 8, 3);
    const Tensor out = Attend(q, k, v, options, context);
    const AttentionGradients got = AttendBackward(q, k, v, out, grad_out, options, context);
    options.reference = true;
    const AttentionGradients want = AttendBackward(q, k, v, out, grad_out, options, context);
    EXPECT_LT(RelativeError(got.q, want.q), 1e-5);
    EXPECT_LT(RelativeError(got.k, want.k), 1e-5);
    EXPECT_LT(RelativeError(got.v, want.v), 1e-5);
  }
}

TEST(Gradients, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const char* kind : {"linear", "exact"}) {
    for (const bool causal : {false, true}) {
      Case way{.attention = kind, .causal = causal, .grouped = true, .length = 700};
      const Call call(way);
      std::vector<AttentionGradients> all;
      for (const int threads : {1, 2, 3, 8, 16})
        all.push_back(call.Gradients(Context({.threads = threads})));
      for (const AttentionGradients& other : all) {
        EXPECT_EQ(LargestDifference(other.q, all[0].q), 0);
        EXPECT_EQ(LargestDifference(other.k, all[0].k), 0);
        EXPECT_EQ(LargestDifference(other.v, all[0].v), 0);
      }
    }
  }
  // One long head: the sequence is cut.
  const Tensor q = RandomTensor({9000, 8}, 1, 1), k = RandomTensor({9000, 8}, 1, 2),
               v = RandomTensor({9000, 4}, 1, 3), grad_out = RandomTensor({9000, 4}, 1, 4);
  for (const bool causal : {false, true}) {
    AttentionOptions options{.causal = causal, .features = {.features = 16}};
    std::vector<AttentionGradients> all;
    for (const int threads : {1, 2, 3, 8, 16}) {
      const Context context({.threads = threads});
      const Tensor out = Attend(q, k, v, options, context);
      all.push_back(AttendBackward(q, k, v, out, grad_out, options, context));
    }
    for (const AttentionGradients& other : all) {
      EXPECT_EQ(LargestDifference(other.q, all[0].q), 0);
      EXPECT_EQ(LargestDifference(other.k, all[0].k), 0);
      EXPECT_EQ(LargestDifference(other.v, all[0].v), 0);
    }
  }
}

// Masked rows may hold anything, and take nothing.
TEST(Gradients, OfMaskedKeysAreZeroWhateverTheyHold) {
  const Context context;
  for (const char* kind : {"linear", "exact"}) {
    Case way{.attention = kind, .masked = true, .length = 80};
    Call call(way);
    const AttentionGradients want = call.Gradients(context);
    for (int64_t i = 0; i < 6; ++i) call.k.Data<float>()[i] = NAN;  // key 0 does not exist
    for (int64_t i = 0; i < 5; ++i) call.v.Data<float>()[i] = INFINITY;
    const AttentionGradients got = call.Gradients(context);
    EXPECT_EQ(LargestDifference(got.q, want.q), 0) << kind;
    EXPECT_EQ(LargestDifference(got.k, want.k), 0) << kind;
    EXPECT_EQ(LargestDifference(got.v, want.v), 0) << kind;
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(got.k.Data<float>()[i], 0);
  }
}

// Scratch memory goes from call to call: what another call left there must not count.
TEST(Gradients, DoNotDependOnEarlierCalls) {
  for (const std::string& simd : SimdNames()) {
    UseSimd(simd);
    for (const int64_t features : {1, 8, 36, 41}) {
      for (const char* map : {"positive", "relu", "hyperbolic"}) {
        for (const bool causal : {false, true}) {
          Case way{.map = map, .causal = causal, .length = 49};
          way.features = features;
          const Call call(way);
          const Context used({.threads = 1});
          {
            // As many NaN as any buffer holds.
            std::vector<std::unique_ptr<Scratch<float>>> buffers;
            for (int i = 0; i < 12; ++i) {
              buffers.push_back(std::make_unique<Scratch<float>>(used, 200'000));
              std::fill_n(buffers.back()->data(), 200'000, NAN);
            }
          }
          const AttentionGradients got = call.Gradients(used);
          const AttentionGradients want = call.Gradients(Context({.threads = 1}));
          EXPECT_EQ(LargestDifference(got.q, want.q), 0) << simd << " " << map << " " << features;
          EXPECT_EQ(LargestDifference(got.k, want.k), 0) << simd << " " << map << " " << features;
          EXPECT_EQ(LargestDifference(got.v, want.v), 0) << simd << " " << map << " " << features;
        }
      }
    }
  }
  UseSimd(SimdNames().front());
}

// Scores of the two passes must round alike: at these norms one unit of rounding is a factor.
TEST(Gradients, OfExactAttentionSurviveLargeNormsOnEverySimdTarget) {
  const Context context;
  for (const bool causal : {false, true}) {
    Case way{.attention = "exact", .causal = causal, .length = 80, .dim = 32};
    way.deviation = 1000;
    Call call(way);
    call.options.reference = true;
    const AttentionGradients want = call.Gradients(context);
    call.options.reference = false;
    for (const std::string& simd : SimdNames()) {
      UseSimd(simd);
      EXPECT_LT(RelativeError(call.Gradients(context).v, want.v), 1e-4) << simd;
    }
    UseSimd(SimdNames().front());
  }
}

// A hundred thousand equal rows: sums must not drift.
TEST(Gradients, OfLongConstantSequencesDoNotDrift) {
  const Context context;
  const int64_t length = 1 << 17;
  const Shape shape({length, 2});
  Tensor zeros(shape), values(shape);
  std::fill_n(values.Data<float>(), shape.Elements(), 0.1f);
  for (const bool causal : {false, true}) {
    AttentionOptions options{.causal = causal, .features = {.features = 4}};
    const Tensor out = Attend(zeros, zeros, values, options, context);
    EXPECT_NEAR(out.Data<float>()[shape.Elements() - 1], 0.1f, 2e-7);
    const AttentionGradients got =
        AttendBackward(zeros, zeros, values, out, values, options, context);
    double want = 0;  // of the first value: Σ_i 0.1/(keys that row i sees)
    for (int64_t i = 0; i < length; ++i) want += 0.1 / static_cast<double>(causal ? i + 1 : length);
    EXPECT_NEAR(got.v.Data<float>()[0], want, 2e-6 * want) << causal;
  }
}

}  // namespace
}  // namespace favor
