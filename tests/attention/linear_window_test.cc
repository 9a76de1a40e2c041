// Features of near keys, and softmax of near keys with features of the others, against their
// definitions: every pair by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "attention/kind.h"
#include "core/simd.h"
#include "core/tally.h"
#include "favor/error.h"
#include "layers/attention_cache.h"
#include "tests/attention/gradient_case.h"
#include "tests/layers/uniform_shape.h"

namespace favor {
namespace {

AttentionOptions Options(const std::string& kind, int64_t window, bool causal) {
  AttentionOptions options{.attention = kind, .causal = causal};
  options.kind_options = {{"window", window}};
  return options;
}

FeaturePlan PlanOf(const std::string& map, int64_t heads, int64_t dim) {
  FeatureOptions features{.map = map, .features = 8};
  if (map == "oprf") features.oprf_a = {-0.1};
  if (map.starts_with("poly-")) features.coefficients = {4, 1, 0.5, 0.25};
  return FeaturePlan::Draw(features, heads, dim, 7);
}

// φ(q_i)·φ(k_j) of every pair, [H, L, L] in double; q [H, L, d], k [G, L, d].
Tensor Kernels(const FeaturePlan& plan, const Tensor& q, const Tensor& k) {
  const int64_t heads = q.shape()[0], shared = heads / k.shape()[0], length = q.shape()[1],
                d = q.shape()[2], width = plan.width();
  const double scale = std::pow(static_cast<double>(d), -0.25);
  const auto scaled = [&](const Tensor& x, int64_t of) {
    Tensor y({heads, length, d}, DataType::kF64);
    for (int64_t i = 0; i < y.shape().Elements(); ++i) {
      const int64_t head = i / (length * d), rest = i % (length * d);
      y.Data<double>()[i] = scale * x.Data<float>()[head / of * length * d + rest];
    }
    return y;
  };
  const Context context({.threads = 1});
  const Tensor phi_q = Features(plan, scaled(q, 1), context, FeatureRole::kQuery),
               phi_k = Features(plan, scaled(k, shared), context, FeatureRole::kKey);
  Tensor kernels({heads, length, length}, DataType::kF64);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j < length; ++j) {
        double sum = 0;
        for (int64_t r = 0; r < width; ++r)
          sum += phi_q.Data<double>()[(h * length + i) * width + r] *
                 phi_k.Data<double>()[(h * length + j) * width + r];
        kernels.Data<double>()[(h * length + i) * length + j] = sum;
      }
    }
  }
  return kernels;
}

// exp(q_i·k_j/√d) of every pair.
Tensor SoftmaxKernels(const Tensor& q, const Tensor& k) {
  const int64_t heads = q.shape()[0], shared = heads / k.shape()[0], length = q.shape()[1],
                d = q.shape()[2];
  Tensor kernels({heads, length, length}, DataType::kF64);
  for (int64_t i = 0; i < kernels.shape().Elements(); ++i) {
    const int64_t row = i / length, head = row / length, key = i % length;
    double dot = 0;
    for (int64_t c = 0; c < d; ++c)
      dot += static_cast<double>(q.Data<float>()[row * d + c]) *
             k.Data<float>()[(head / shared * length + key) * d + c];
    kernels.Data<double>()[i] = std::exp(dot / std::sqrt(static_cast<double>(d)));
  }
  return kernels;
}

// Σ_j w_ij v_j / Σ_j w_ij over the keys that exist, with w of pairs in the window and beyond it.
Tensor Definition(const Tensor& near, const Tensor* far, const Tensor& v, int64_t window,
                  bool causal, const Tensor* mask, bool normalize = true) {
  const int64_t heads = near.shape()[0], length = near.shape()[1], dv = v.shape()[2],
                shared = heads / v.shape()[0];
  Tensor out({heads, length, dv}, DataType::kF64);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < length; ++i) {
      double* row = out.Data<double>() + (h * length + i) * dv;
      double total = 0;
      for (int64_t j = 0; j < length; ++j) {
        if ((causal && j > i) || (mask != nullptr && mask->Data<float>()[j] == 0)) continue;
        const bool is_near = std::abs(i - j) <= window;
        if (!is_near && far == nullptr) continue;
        const double weight = (is_near ? near : *far).Data<double>()[(h * length + i) * length + j];
        total += weight;
        for (int64_t c = 0; c < dv; ++c)
          row[c] += weight * v.Data<float>()[(h / shared * length + j) * dv + c];
      }
      for (int64_t c = 0; c < dv && normalize && total != 0; ++c) row[c] /= total;
    }
  }
  return out;
}

Tensor EveryThird(int64_t length) {
  Tensor mask({length});
  for (int64_t i = 0; i < length; ++i) mask.Data<float>()[i] = i % 7 == 3 || i % 5 == 1 ? 1 : 0;
  return mask;
}

// Windows narrower and wider than a band, of one block, of several blocks, and beyond the sequence;
// lengths on both sides of the ends of blocks; heads that share keys; values of another dim; masks
// that leave rows empty; both backends.
TEST(LinearWindow, EqualsItsDefinition) {
  for (const char* kind : {"window", "hybrid"}) {
    for (const int64_t length : {1, 6, 29, 97, 200}) {
      const Tensor q = RandomTensor({4, length, 6}, 1.2, 1),
                   k = RandomTensor({2, length, 6}, 1.2, 2), v = RandomTensor({2, length, 3}, 1, 3),
                   mask = EveryThird(length);
      const FeaturePlan plan = PlanOf("positive", 4, 6);
      const Tensor features = Kernels(plan, q, k), softmax = SoftmaxKernels(q, k);
      const bool hybrid = std::string(kind) == "hybrid";
      for (const int64_t window : {0, 1, 5, 24, 63, 64, 65, 66, 98, 130, 199, 1000}) {
        for (const bool causal : {false, true}) {
          for (const bool masked : {false, true}) {
            for (const bool normalize : {true, false}) {
              if (masked && !normalize) continue;
              AttentionOptions options = Options(kind, window, causal);
              options.plan = plan;
              options.renormalize = normalize;
              if (masked) options.key_mask = mask;
              const Tensor want =
                  Definition(hybrid ? softmax : features, hybrid ? &features : nullptr, v, window,
                             causal, masked ? &mask : nullptr, normalize);
              for (const bool reference : {false, true}) {
                if (reference && length > 40) continue;
                options.reference = reference;
                const Tensor out = Attend(q, k, v, options, Context({.threads = 2}));
                ASSERT_LE(LargestDifference(out, want),
                          (reference ? 1e-12 : 5e-6) * (1 + LargestAbsolute(want)))
                    << kind << " length " << length << " window " << window << " causal " << causal
                    << " masked " << masked << " normalised " << normalize;
              }
            }
          }
        }
      }
    }
  }
}

// Every map, at windows that take either way, on each SIMD target.
TEST(LinearWindow, EveryMapEqualsItsDefinition) {
  constexpr int64_t kLength = 150;
  const Tensor q = RandomTensor({2, kLength, 5}, 0.5, 1), k = RandomTensor({1, kLength, 5}, 0.5, 2),
               v = RandomTensor({1, kLength, 4}, 1, 3);
  for (const FeatureMapInfo& map : Maps()) {
    const FeaturePlan plan = PlanOf(std::string(map.name), 2, 5);
    const Tensor features = Kernels(plan, q, k), softmax = SoftmaxKernels(q, k);
    for (const char* kind : {"window", "hybrid"}) {
      for (const int64_t window : {9, 70}) {
        for (const bool causal : {false, true}) {
          AttentionOptions options = Options(kind, window, causal);
          options.plan = plan;
          const bool hybrid = std::string(kind) == "hybrid";
          // Rows of signed maps may have denominators of any size: sums are compared instead.
          options.renormalize = map.nonnegative;
          const Tensor want = Definition(hybrid ? softmax : features, hybrid ? &features : nullptr,
                                         v, window, causal, nullptr, map.nonnegative);
          for (const std::string& simd : SimdNames()) {
            UseSimd(simd);
            const Tensor out = Attend(q, k, v, options, Context({.threads = 1}));
            EXPECT_LE(LargestDifference(out, want), 1e-5 * (1 + LargestAbsolute(want)))
                << map.name << " " << kind << " " << window << " causal " << causal << " " << simd;
          }
          UseSimd(SimdNames().front());
        }
      }
    }
  }
}

// Norms that change by a factor of 1000 along the sequence: tiles and chunks in which some row
// loses its digits are computed again in halves.
TEST(LinearWindow, HoldsAtAnyNorm) {
  for (const char* profile : {"grow", "shrink", "jump"}) {
    const Tensor q = Profiled(RandomTensor({1, 300, 16}, 8, 1), profile),
                 k = Profiled(RandomTensor({1, 300, 16}, 8, 2), profile),
                 v = RandomTensor({1, 300, 4}, 1, 3);
    for (const char* kind : {"window", "hybrid"}) {
      for (const int64_t window : {3, 20, 90}) {
        for (const bool causal : {false, true}) {
          AttentionOptions options = Options(kind, window, causal);
          options.plan = PlanOf("positive", 1, 16);
          const Tensor out = Attend(q, k, v, options, Context());
          options.reference = true;
          EXPECT_LE(LargestDifference(out, Attend(q, k, v, options, Context())), 1e-4)
              << profile << " " << kind << " " << window << " causal " << causal;
        }
      }
    }
  }
}

// However much the last keys change, rows that do not see them stay as they are.
TEST(LinearWindow, CausalMeansCausal) {
  constexpr int64_t kLength = 180, kChanged = 120;
  const Tensor q = RandomTensor({2, kLength, 8}, 1, 1), v = RandomTensor({2, kLength, 4}, 1, 3);
  Tensor k = RandomTensor({2, kLength, 8}, 1, 2), other = k.Clone();
  const FeaturePlan plan = PlanOf("positive", 2, 8);
  const Tensor omega = plan.Omega();
  for (int64_t h = 0; h < 2; ++h) {  // keys that dominate a feature
    for (int64_t j = kChanged; j < kLength; ++j) {
      for (int64_t c = 0; c < 8; ++c)
        other.Data<float>()[(h * kLength + j) * 8 + c] =
            static_cast<float>(std::pow(8, 0.25)) * omega.Data<float>()[(h * 8 + j % 8) * 8 + c];
    }
  }
  for (const char* kind : {"window", "hybrid"}) {
    for (const int64_t window : {0, 12, 100}) {
      AttentionOptions options = Options(kind, window, true);
      options.plan = plan;
      const Tensor before = Attend(q, k, v, options, Context()),
                   after = Attend(q, other, v, options, Context());
      double moved = 0, later = 0;
      for (int64_t i = 0; i < before.shape().Elements(); ++i) {
        const double by = std::fabs(before.Data<float>()[i] - after.Data<float>()[i]);
        (i / 4 % kLength < kChanged ? moved : later) =
            std::max(i / 4 % kLength < kChanged ? moved : later, by);
      }
      EXPECT_LE(moved, 1e-5) << kind << " " << window;
      // One key that is normalised counts 1, whatever it is.
      if (window > 0 || std::string(kind) == "hybrid") {
        EXPECT_GT(later, 0.01) << kind << " " << window;
      }
    }
  }
}

TEST(LinearWindow, GradientsAreCentralDifferences) {
  for (const char* kind : {"window", "hybrid"}) {
    for (const char* map : {"positive", "trigonometric"}) {
      for (const bool causal : {false, true}) {
        for (const bool normalize : {true, false}) {
          ExpectCentralDifferences({.attention = kind,
                                    .map = map,
                                    .causal = causal,
                                    .masked = true,
                                    .grouped = true,
                                    .normalize = normalize,
                                    .window = 2,
                                    .deviation = 0.5});
        }
      }
    }
  }
  for (const bool frozen : {false, true})
    ExpectCentralDifferences({.attention = "window",
                              .masked = true,
                              .centred = true,
                              .frozen_mean = frozen,
                              .window = 2});
}

// Bands and stairs, with remainders; each SIMD target.
TEST(LinearWindow, FloatGradientsAreThoseOfTheReference) {
  for (const char* kind : {"window", "hybrid"}) {
    for (const int64_t window : {20, 66, 150}) {
      for (const bool causal : {false, true}) {
        Call call({.attention = kind,
                   .causal = causal,
                   .masked = causal || window == 66,
                   .grouped = true,
                   .normalize = window != 66,
                   .window = window,
                   .length = 161});
        SCOPED_TRACE(std::string(kind) + " " + std::to_string(window) + (causal ? " causal" : ""));
        ExpectReferenceOnEverySimdTarget(call, 1e-5);
      }
    }
  }
}

// Far keys with negative weights: near ones then count more than 1. Query 2 sees itself with the
// weight e^0 and the others with −0.3 each: the near weight is 1/0.4.
TEST(LinearWindow, NearWeightsOfSignedMapsExceedOne) {
  Tensor ones({3, 1}), k({3, 1}), omega({1, 1}), v = RandomTensor({3, 1}, 1, 3);
  for (int64_t i = 0; i < 3; ++i) {
    ones.Data<float>()[i] = 1;
    k.Data<float>()[i] = i < 2 ? -0.3f : 0;
  }
  omega.Data<float>()[0] = 1;
  AttentionOptions options = Options("hybrid", 0, true);
  options.plan = FeaturePlan::WithOmega({.map = "identity", .kernel_epsilon = 0.0}, 1, omega);
  const Tensor out = Attend(ones, k, v, options, Context());
  const float* values = v.Data<float>();
  EXPECT_NEAR(out.Data<float>()[2], (values[2] - 0.3 * (values[0] + values[1])) / 0.4, 1e-5);
  const AttentionGradients gradients = AttendBackward({ones, k, v, out, ones}, options, Context());
  EXPECT_NEAR(gradients.v.Data<float>()[2], 2.5, 1e-5);
  options.plan = FeaturePlan::WithOmega(
      {.map = "identity", .kernel_epsilon = 0.0, .least_denominator = 0.5}, 1, omega);
  AttentionReport report;
  EXPECT_EQ(Attend(ones, k, v, options, Context(), {.report = &report}).Data<float>()[2], 0);
  EXPECT_EQ(report.nonpositive_rows, 2);  // row 1: e^−0.3 − 0.3
}

TEST(LinearWindow, GradientsHoldAtAnyNorm) {
  for (const char* profile : {"jump"}) {
    for (const char* kind : {"window", "hybrid"}) {
      for (const int64_t window : {10, 90}) {
        for (const bool causal : {false, true}) {
          Call call({.attention = kind, .causal = causal, .window = window, .length = 230});
          call.q = Profiled(RandomTensor(call.q.shape(), 4, 1), profile);
          call.k = Profiled(RandomTensor(call.k.shape(), 4, 2), profile);
          const AttentionGradients got = call.Gradients(Context());
          call.options.reference = true;
          ExpectNear(got, call.Gradients(Context()), 2e-4,
                     std::string(profile) + " " + kind + " " + std::to_string(window));
        }
      }
    }
  }
}

TEST(LinearWindow, TheSameBitsForAnyNumberOfThreads) {
  for (const char* kind : {"window", "hybrid"}) {
    for (const int64_t window : {10, 200}) {
      for (const bool causal : {false, true}) {
        const Call call({.attention = kind,
                         .causal = causal,
                         .grouped = true,
                         .window = window,
                         .length = 700});
        const Tensor out = call.Forward(Context({.threads = 1}));
        const AttentionGradients gradients = call.Gradients(Context({.threads = 1}));
        for (const int threads : {2, 3, 8}) {
          EXPECT_EQ(LargestDifference(call.Forward(Context({.threads = threads})), out), 0);
          ExpectNear(call.Gradients(Context({.threads = threads})), gradients, 0);
        }
      }
    }
  }
}

// Decoding in pieces of any size equals the call on the whole, with heads that share keys; what is
// kept is bounded.
TEST(LinearWindow, DecodingEqualsTheWholeCall) {
  constexpr int64_t kTokens = 150, kDim = 4;
  const Context context({.threads = 1});
  for (const char* kind : {"window", "hybrid"}) {
    for (const int64_t window : {0, 1, 6, 140, 200}) {
      for (const int64_t piece : {1, 4, 33, 150}) {
        AttentionOptions options = Options(kind, window, true);
        options.plan = PlanOf("positive", 2, kDim);
        Tensor q = RandomTensor({kTokens, 2 * kDim}, 1, 1), k = RandomTensor({kTokens, kDim}, 1, 2),
               v = RandomTensor({kTokens, kDim}, 1, 3), out({kTokens, 2 * kDim});
        layers::AttentionCache cache(UniformShape(2 * kDim, 2, 1, options));
        const int64_t empty = cache.Bytes();
        for (int64_t at = 0; at < kTokens; at += piece) {
          const Tally tally(context);
          const auto rows = [&](Tensor& all) {
            return all.view().Range(0, at, std::min(piece, kTokens - at));
          };
          cache.Attend(context, {.q = rows(q), .k = rows(k), .v = rows(v)}, tally.At(), rows(out));
          EXPECT_EQ(tally.Read()[0].unusable, 0);
          const int64_t kept = std::min({window, at + piece, kTokens});
          EXPECT_EQ(cache.Bytes(), empty + kept * 2 * kDim * 4) << window << " after " << at;
        }
        Tensor heads({2, kTokens, kDim}), keys({1, kTokens, kDim}), values({1, kTokens, kDim}),
            got({2, kTokens, kDim});
        for (int64_t i = 0; i < 2 * kTokens * kDim; ++i) {
          const int64_t head = i / (kTokens * kDim), token = i / kDim % kTokens, c = i % kDim;
          heads.Data<float>()[i] = q.Data<float>()[token * 2 * kDim + head * kDim + c];
          got.Data<float>()[i] = out.Data<float>()[token * 2 * kDim + head * kDim + c];
        }
        Copy(k, keys.view().At(0));
        Copy(v, values.view().At(0));
        const Tensor features = Kernels(*options.plan, heads, keys),
                     softmax = SoftmaxKernels(heads, keys);
        const bool hybrid = std::string(kind) == "hybrid";
        const Tensor want = Definition(hybrid ? softmax : features, hybrid ? &features : nullptr,
                                       values, window, true, nullptr);
        EXPECT_LE(LargestDifference(got, want), 1e-5)
            << kind << " " << window << " in pieces of " << piece;
      }
    }
  }
}

TEST(LinearWindow, RefusesWhatItCannotMean) {
  const Tensor q = RandomTensor({5, 4}, 1, 1), k = RandomTensor({6, 4}, 1, 2);
  for (const char* kind : {"window", "hybrid"}) {
    EXPECT_THROW(Attend(q, k, k, Options(kind, 2, false), Context()), Error);
    EXPECT_THROW(Attend(q, q, q, Options(kind, -1, false), Context()), Error);
    Tensor log_decay({5});
    AttentionOptions options = Options(kind, 2, true);
    options.log_decay = log_decay;
    EXPECT_THROW(Attend(q, q, q, options, Context()), Error);
    options = Options(kind, 2, false);
    options.compat = Compat::kJax;
    EXPECT_THROW(Attend(q, q, q, options, Context()), Error);
  }
  AttentionOptions centred = Options("hybrid", 2, false);
  centred.center_keys = true;
  EXPECT_THROW(Attend(q, q, q, centred, Context()), Error);
}

// Products by hand. Length 6, window 2, causal: rows see 1, 2, 3, 3, 3, 3 keys.
TEST(LinearWindow, CountsTheProductsOfTheCheaperWay) {
  const attention::CacheShape shape{
      .batch = 2, .heads = 3, .kv_heads = 3, .dim = 5, .value_dim = 4};
  AttentionOptions options = Options("window", 2, true);
  options.features.features = 7;
  const double rows = 36, m = 7;
  EXPECT_EQ(attention::FindKind("window").Flops(shape, 6, options, false),
            4 * rows * m * 5 + 2 * 6 * 15.0 * (7 + 4));
  options.kind_options = {{"window", 50}};
  EXPECT_EQ(attention::FindKind("window").Flops(shape, 6, options, true),
            3 * (4 * rows * m * 5 + std::min(4 * rows * m * 4, 2 * 6 * 21.0 * 11)));
  EXPECT_EQ(attention::FindKind("hybrid").Flops(shape, 6, options, false),
            6 * 21.0 * 2 * 9 + 4 * rows * m * 9);
}

}  // namespace
}  // namespace favor
