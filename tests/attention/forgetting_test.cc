// Forgetting in the reference: causal linear attention whose keys fade, against its definition and
// finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "favor/error.h"
#include "tests/attention/gradient_case.h"

namespace favor {
namespace {

constexpr int64_t kLength = 9;

// ℓ of [2, heads, 9] doubles: mild, none, and one that forgets nearly everything.
Tensor Decays(int64_t heads) {
  Tensor decays({2, heads, kLength}, DataType::kF64);
  for (int64_t i = 0; i < decays.shape().Elements(); ++i)
    decays.Data<double>()[i] = i % 7 == 3   ? -12
                               : i % 5 == 0 ? 0
                                            : -0.1 * static_cast<double>(i % 4);
  return decays;
}

// Row i is Σ_{j≤i} e^{G_i − G_j} K(q_i, k_j) v_j over Σ_j of the weights, with K from the attention
// matrix of one query and one key at a time. Masked keys do not exist, and neither does their ℓ.
Tensor Definition(const Call& call, const Tensor& decays, const float* mask) {
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
    const double* l = decays.Data<double>() + group * kLength;
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

TEST(Forgetting, EqualsItsDefinition) {
  for (const char* map : {"positive", "relu", "taylor1"}) {
    for (const bool masked : {false, true}) {
      for (const bool normalize : {true, false}) {
        Call call({.map = map,
                   .causal = true,
                   .masked = masked,
                   .grouped = true,
                   .normalize = normalize,
                   .deviation = 0.4});
        call.options.reference = true;
        const Tensor decays = Decays(4);
        const Tensor want =
            Definition(call, decays, masked ? call.options.key_mask.Data<float>() : nullptr);
        call.options.log_decay = decays;
        EXPECT_LE(LargestDifference(call.Forward(Context()), want), 1e-11 * (1 + Largest(want)))
            << map << " masked " << masked << " normalised " << normalize;
      }
    }
  }
}

TEST(Forgetting, GradientsAreThoseOfDifferences) {
  for (const char* map : {"positive", "relu", "taylor1"}) {
    for (const bool masked : {false, true}) {
      for (const bool normalize : {true, false}) {
        Call call({.map = map,
                   .causal = true,
                   .masked = masked,
                   .grouped = true,
                   .normalize = normalize,
                   .deviation = 0.4});
        call.options.reference = true;
        Tensor decays = Decays(4);
        for (int64_t i = 0; i < decays.shape().Elements(); ++i) decays.Data<double>()[i] -= 0.01;
        call.options.log_decay = decays;
        const Context context({.threads = 1});
        const AttentionGradients gradients = call.Gradients(context);
        ASSERT_EQ(gradients.log_decay.shape(), decays.shape());
        for (int64_t at = 0; at < decays.shape().Elements(); ++at) {
          double& x = decays.Data<double>()[at];
          const double old = x, h = 1e-4;
          x = old + h;
          const double above = call.Loss(context);
          x = old - h;
          const double below = call.Loss(context);
          x = old;
          EXPECT_NEAR((above - below) / (2 * h), gradients.log_decay.Data<double>()[at], 1e-6)
              << map << " masked " << masked << " normalised " << normalize << " at " << at;
        }
        for (auto [array, gradient] :
             {std::pair{&call.q, &gradients.q}, {&call.k, &gradients.k}, {&call.v, &gradients.v}}) {
          // A step may cross relu's kink; its values have none.
          if (map == std::string("relu") && array != &call.v) continue;
          for (int64_t at = 0; at < array->shape().Elements(); at += 11) {
            float& x = array->Data<float>()[at];
            const float old = x, h = 3e-3f;
            x = old + h;
            const double up = x, above = call.Loss(context);
            x = old - h;
            const double down = x, below = call.Loss(context);
            x = old;
            const double difference = (above - below) / (up - down);
            EXPECT_NEAR(difference, gradient->Data<double>()[at],
                        1e-4 * (1 + std::fabs(difference)));
          }
        }
      }
    }
  }
}

// One row for all, one per head of keys, one per head of queries, and all of them spelled out.
TEST(Forgetting, TakesDecaysOfEveryShape) {
  Call call({.causal = true, .grouped = true});
  call.options.reference = true;
  const Tensor some = Decays(2);
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
  Call call({.causal = true, .grouped = true});
  Tensor decays = Decays(4);
  call.options.log_decay = decays;
  const auto refused = [&](const std::string& what) {
    try {
      call.Gradients(Context());
    } catch (const Error& error) {
      return std::string(error.what()).find(what) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused("expected the reference"));
  call.options.reference = true;
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
  Call call({.causal = true});
  call.options.reference = true;
  Tensor decays = Decays(2);
  call.options.log_decay = decays;
  AttentionTrace trace;
  const Tensor out = Attend(call.q, call.k, call.v, call.options, Context(), {.trace = &trace});
  const BackwardInputs inputs{call.q, call.k, call.v, out, call.grad_out};
  EXPECT_NO_THROW(AttendBackward(inputs, call.options, Context(), &trace));
  decays.Data<double>()[1] -= 1;
  EXPECT_THROW(AttendBackward(inputs, call.options, Context(), &trace), Error);
}

}  // namespace
}  // namespace favor
