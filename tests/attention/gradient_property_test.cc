// Properties of gradients besides their values: invariant, finite at large norms, without drift,
// independent of earlier calls, and the same for any cut and number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/scratch.h"
#include "tests/attention/gradient_case.h"

namespace favor {
namespace {

// Σ_r dQ'_r Q'_r = 0 under normalisation. With u = x and φ = e^u this is the sum over a row of dq.
TEST(Gradients, DoNotMoveAlongAConstantOfTheQueryExponents) {
  const Context context;
  for (const bool causal : {false, true}) {
    const Tensor q = RandomTensor({200, 16}, 1, 1), k = RandomTensor({200, 16}, 1, 2),
                 v = RandomTensor({200, 8}, 1, 3), grad_out = RandomTensor({200, 8}, 1, 4);
    AttentionOptions options{.causal = causal};
    options.features = {.map = "exp", .projection = "none", .features = 16, .kernel_epsilon = 0};
    const Tensor out = Attend(q, k, v, options, context);
    const AttentionGradients gradients = AttendBackward({q, k, v, out, grad_out}, options, context);
    // The terms that cancel round: δ and dO·v, which are of order 1.
    for (int64_t row = 0; row < 200; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < 16; ++i) sum += gradients.q.Data<float>()[row * 16 + i];
      EXPECT_LE(std::fabs(sum), 2e-6) << row;
    }
    EXPECT_GT(Largest(gradients.q), 0.01);
  }
}

// Two heads share keys, and gradients go to arrays whose columns lie apart: what heads add up is
// the same as in rows of their own.
TEST(Gradients, OfSharedKeysAddUpInAnyLayout) {
  const Context context;
  constexpr int64_t kLength = 70, kDim = 8;
  const Tensor q = RandomTensor({2, kLength, kDim}, 1, 1),
               k = RandomTensor({1, kLength, kDim}, 1, 2),
               v = RandomTensor({1, kLength, kDim}, 1, 3),
               grad_out = RandomTensor({2, kLength, kDim}, 1, 4);
  for (const char* attention : {"exact", "linear", "uniform"}) {
    for (const bool causal : {false, true}) {
      const AttentionOptions options{.attention = attention, .causal = causal};
      const Tensor out = Attend(q, k, v, options, context);
      const BackwardInputs inputs{q, k, v, out, grad_out};
      const AttentionGradients want = AttendBackward(inputs, options, context);
      // [heads, dim, length], seen as [heads, length, dim].
      Tensor grad_q({2, kDim, kLength}), grad_k({1, kDim, kLength}), grad_v({1, kDim, kLength});
      const auto turned = [](Tensor& x) {
        return View(x.view().data(), DataType::kF32, {x.shape()[0], kLength, kDim},
                    {kDim * kLength, 1, kLength, 0}, Device{});
      };
      AttendBackwardInto(inputs, options, context, nullptr,
                         {turned(grad_q), turned(grad_k), turned(grad_v)});
      for (const auto& [got, expected] :
           {std::pair{&grad_q, &want.q}, {&grad_k, &want.k}, {&grad_v, &want.v}}) {
        Tensor rows(expected->shape());
        Copy(turned(*got), rows);
        EXPECT_LE(LargestDifference(rows, *expected), 1e-6 * (1 + Largest(*expected)))
            << attention << (causal ? " causal" : "");
      }
    }
  }
}

// A key that dwarfs all before it splits the chunk; large norms must not over- or underflow. Signed
// maps have denominators that cancel, so that rounding matters more.
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
      ExpectNear(got, want, bound);
    }
  }
}

// A chunk in which exponents jump by hundreds is split, and its halves must follow the direction of
// the sweep: the first half first for queries, the last half first for keys. Exponents grow as keys
// shrink.
TEST(Gradients, OfSplitChunksAreThoseOfTheReference) {
  const Context context;
  for (const char* map : {"positive", "hyperbolic"}) {
    for (const char* profile : {"shrink", "grow", "jump"}) {
      for (const double deviation : {8.0, 16.0}) {
        SCOPED_TRACE(std::string(map) + ", norms that " + profile + ", " +
                     std::to_string(deviation));
        Case way{.map = map, .causal = true, .length = 150, .dim = 32, .features = 64};
        way.deviation = deviation;
        Call call(way);
        call.k = Profiled(call.k, profile);
        const AttentionGradients got = call.Gradients(context);
        call.options.reference = true;
        // Exponents reach scale·‖x‖²/2 = 16²·√32/2 = 724: in float they are known to a few times
        // 724·2⁻²⁴ = 4e-5, and so are weights, relatively.
        ExpectNear(got, call.Gradients(context), deviation == 8 ? 1e-4 : 4e-4);
      }
    }
  }
}

// Long enough to be cut into blocks.
TEST(Gradients, OfBlocksAreThoseOfOneBlock) {
  const Context context({.threads = 3});
  for (const bool causal : {false, true}) {
    const Tensor q = RandomTensor({1, 9000, 8}, 1, 1), k = RandomTensor({1, 9000, 8}, 1, 2),
                 v = RandomTensor({1, 9000, 4}, 1, 3), grad_out = RandomTensor({1, 9000, 4}, 1, 4);
    AttentionOptions options{.causal = causal};
    options.plan = FeaturePlan::Draw({.features = 16}, 1, 8, 3);
    const Tensor out = Attend(q, k, v, options, context);
    const AttentionGradients got = AttendBackward({q, k, v, out, grad_out}, options, context);
    options.reference = true;
    const AttentionGradients want = AttendBackward({q, k, v, out, grad_out}, options, context);
    ExpectNear(got, want, 1e-5);
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
        ExpectNear(other, all[0], 0);
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
      all.push_back(AttendBackward({q, k, v, out, grad_out}, options, context));
    }
    for (const AttentionGradients& other : all) {
      ExpectNear(other, all[0], 0);
    }
  }
}

// Masked rows may hold anything, and get no gradient.
TEST(Gradients, OfMaskedKeysAreZeroWhateverTheyHold) {
  const Context context;
  for (const char* kind : {"linear", "exact"}) {
    Case way{.attention = kind, .masked = true, .length = 80};
    Call call(way);
    const AttentionGradients want = call.Gradients(context);
    for (int64_t i = 0; i < 6; ++i) call.k.Data<float>()[i] = NAN;  // key 0 does not exist
    for (int64_t i = 0; i < 5; ++i) call.v.Data<float>()[i] = INFINITY;
    const AttentionGradients got = call.Gradients(context);
    ExpectNear(got, want, 0, kind);
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(got.k.Data<float>()[i], 0);
  }
}

// Scratch memory is reused from call to call: what another call left there must not matter.
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
            // Enough NaN to fill any buffer.
            std::vector<std::unique_ptr<Scratch<float>>> buffers;
            for (int i = 0; i < 12; ++i) {
              buffers.push_back(std::make_unique<Scratch<float>>(used, 200'000));
              std::fill_n(buffers.back()->data(), 200'000, NAN);
            }
          }
          const AttentionGradients got = call.Gradients(used);
          const AttentionGradients want = call.Gradients(Context({.threads = 1}));
          ExpectNear(got, want, 0, simd + " " + map + " " + std::to_string(features));
        }
      }
    }
  }
  UseSimd(SimdNames().front());
}

// Scores of the two passes must round alike: at these norms one unit of rounding changes a weight
// by a factor.
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
        AttendBackward({zeros, zeros, values, out, values}, options, context);
    double want = 0;  // the gradient of the first value: Σ_i 0.1/(keys that row i sees)
    for (int64_t i = 0; i < length; ++i) want += 0.1 / static_cast<double>(causal ? i + 1 : length);
    EXPECT_NEAR(got.v.Data<float>()[0], want, 2e-6 * want) << causal;
  }
}

}  // namespace
}  // namespace favor
