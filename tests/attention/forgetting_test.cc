// Forgetting in the reference: causal linear attention whose keys fade, against its definition and
// finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "favor/error.h"
#include "tests/attention/gradient_case.h"

namespace favor {
namespace {

constexpr int64_t kLength = 9;

// Row i is Σ_{j≤i} e^{G_i − G_j} K(q_i, k_j) v_j over Σ_j of the weights, with K from the attention
// matrix of one query and one key at a time. Masked keys do not exist, and neither does their ℓ.
Tensor Definition(const Call& call, const float* mask) {
  const int64_t heads = call.q.shape()[1], kv_heads = call.k.shape()[1], dv = call.v.shape()[3],
                d = call.q.shape()[3];
  AttentionOptions options = call.options;
  options.causal = false;
  options.renormalize = false;
  options.key_mask = {};
  options.log_decay = {};
  const Tensor kernel = AttentionMatrix(call.q, call.k, options, Context());  // K of all pairs
  EXPECT_EQ(d, 6);
  Tensor out({2, heads, kLength, dv}, DataType::kF64);
  for (int64_t group = 0; group < 2 * heads; ++group) {
    const int64_t kv = group / heads * kv_heads + group % heads / (heads / kv_heads);
    const double* l = call.log_decay.Data<double>() + group * kLength;
    for (int64_t i = 0; i < kLength; ++i) {
      double sum = 0;
      double* row = out.Data<double>() + (group * kLength + i) * dv;
      for (int64_t j = 0; j <= i; ++j) {
        if (mask != nullptr && mask[kv * kLength + j] == 0) continue;
        double fade = 0;
        for (int64_t t = j + 1; t <= i; ++t)
          fade += mask != nullptr && mask[kv * kLength + t] == 0 ? 0 : l[t];
        const double weight =
            std::exp(fade) * kernel.Data<double>()[(group * kLength + i) * kLength + j];
        sum += weight;
        for (int64_t c = 0; c < dv; ++c)
          row[c] += weight * call.v.Data<float>()[(kv * kLength + j) * dv + c];
      }
      for (int64_t c = 0; c < dv && sum != 0 && call.options.renormalize; ++c) row[c] /= sum;
    }
  }
  return out;
}

// Maps with an exponent, with a factor, and without ω; masks, shared keys, sums.
std::vector<Case> Ways() {
  std::vector<Case> ways;
  for (const char* map : {"positive", "relu", "taylor1", "taylor"}) {
    for (const bool masked : {false, true}) {
      for (const bool normalize : {true, false}) {
        ways.push_back({.map = map,
                        .causal = true,
                        .masked = masked,
                        .grouped = true,
                        .normalize = normalize,
                        .forgets = true,
                        .deviation = 0.4});
      }
    }
  }
  return ways;
}

TEST(Forgetting, EqualsItsDefinition) {
  for (const Case& way : Ways()) {
    Call call(way);
    call.options.reference = true;
    const Tensor want =
        Definition(call, way.masked ? call.options.key_mask.Data<float>() : nullptr);
    EXPECT_LE(LargestDifference(call.Forward(Context()), want), 1e-11 * (1 + Largest(want)))
        << way.Name();
  }
}

TEST(Forgetting, GradientsAreThoseOfDifferences) {
  for (const Case& way : Ways()) ExpectCentralDifferences(way);
}

// One row for all, one per head of keys, one per head of queries, and all of them spelled out.
TEST(Forgetting, TakesDecaysOfEveryShape) {
  Call call({.causal = true, .grouped = true});
  call.options.reference = true;
  const Tensor some = Call({.causal = true}).log_decay.Clone();  // of two heads
  const auto whole = [&](const auto& value) {
    Tensor all({2, 4, kLength}, DataType::kF64);
    for (int64_t i = 0; i < all.shape().Elements(); ++i)
      all.Data<double>()[i] = value(i / (4 * kLength), i / kLength % 4, i % kLength);
    call.options.log_decay = all;
    return call.Forward(Context());
  };
  const double* d = some.Data<double>();
  const ConstView rows = some.view();
  Tensor want = whole([&](int64_t, int64_t, int64_t i) { return d[i]; });
  call.options.log_decay = rows.At(0).At(0);
  EXPECT_EQ(LargestDifference(call.Forward(Context()), want), 0);
  want = whole([&](int64_t, int64_t h, int64_t i) { return d[h / 2 * kLength + i]; });
  call.options.log_decay = rows.At(0);
  EXPECT_EQ(LargestDifference(call.Forward(Context()), want), 0);
  want = whole([&](int64_t b, int64_t h, int64_t i) { return d[(b * 2 + h / 2) * kLength + i]; });
  call.options.log_decay = rows;
  EXPECT_EQ(LargestDifference(call.Forward(Context()), want), 0);
}

TEST(Forgetting, RefusesWhatItCannotMean) {
  Call call({.causal = true, .grouped = true, .forgets = true});
  Tensor& decays = call.log_decay;
  const auto refused = [&](const std::string& what) {
    try {
      call.Gradients(Context());
    } catch (const Error& error) {
      return std::string(error.what()).find(what) != std::string::npos;
    }
    return false;
  };
  EXPECT_FALSE(refused(""));
  call.options.causal = false;
  EXPECT_TRUE(refused("expected causal linear attention"));
  call.options.causal = true;
  for (const double bad : {1e-9, -1.1e6, std::nan("")}) {
    const double old = std::exchange(decays.Data<double>()[30], bad);
    EXPECT_TRUE(refused("log_decay: given")) << bad;
    decays.Data<double>()[30] = old;
  }
  const Tensor other({3, kLength}), longer({kLength + 1}), more({1, 2, 4, kLength});
  for (const Tensor* wrong : {&other, &longer, &more}) {
    call.options.log_decay = *wrong;
    EXPECT_TRUE(refused("log_decay: given shape")) << wrong->shape().ToString();
  }
  call.options.log_decay = decays;
  call.options.attention = "exact";
  call.options.plan.reset();
  EXPECT_TRUE(refused("given to causal exact attention"));
}

TEST(Forgetting, TracesKnowTheDecays) {
  Call call({.causal = true, .forgets = true});
  call.options.reference = true;
  AttentionTrace trace;
  const Tensor out = Attend(call.q, call.k, call.v, call.options, Context(), {.trace = &trace});
  const BackwardInputs inputs{call.q, call.k, call.v, out, call.grad_out};
  EXPECT_NO_THROW(AttendBackward(inputs, call.options, Context(), &trace));
  call.log_decay.Data<double>()[1] -= 1;
  EXPECT_THROW(AttendBackward(inputs, call.options, Context(), &trace), Error);
}

}  // namespace
}  // namespace favor
