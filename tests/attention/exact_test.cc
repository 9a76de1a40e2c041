// Exact attention against a plain double oracle, and the public formulas of compat.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "tests/attention/oracle.h"

namespace favor {
namespace {

struct Case {
  Shape q, k, v;
  bool causal, masked;
  double deviation;
  bool renormalize = true;
};

class ExactAttention : public testing::TestWithParam<Case> {};

// softmax(scale·QKᵀ)V by definition, from rank-4 views.
Tensor Oracle(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* mask,
              const Case& c) {
  const ConstView q4 = q.view().AsRank4(), k4 = k.view().AsRank4(), v4 = v.view().AsRank4();
  const int64_t B = q4.size(0), H = q4.size(1), Lq = q4.size(2), d = q4.size(3), G = H / k4.size(1),
                Lk = k4.size(2), dv = v4.size(3);
  Tensor out({B, H, Lq, dv}, DataType::kF64);
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      const float *qh = q4.At(b).At(h).Data<float>(), *kh = k4.At(b).At(h / G).Data<float>(),
                  *vh = v4.At(b).At(h / G).Data<float>();
      for (int64_t i = 0; i < Lq; ++i) {
        std::vector<double> score(static_cast<size_t>(Lk), -INFINITY);
        double largest = -INFINITY, denominator = 0;
        for (int64_t j = 0; j < Lk; ++j) {
          if ((c.causal && j > i) || (mask != nullptr && mask->Data<float>()[j] == 0)) continue;
          double dot = 0;
          for (int64_t e = 0; e < d; ++e) dot += static_cast<double>(qh[i * d + e]) * kh[j * d + e];
          score[static_cast<size_t>(j)] = dot / std::sqrt(static_cast<double>(d));
          largest = std::max(largest, score[static_cast<size_t>(j)]);
        }
        double* o = out.Data<double>() + ((b * H + h) * Lq + i) * dv;
        if (largest == -INFINITY) continue;
        if (!c.renormalize) largest = 0;
        for (int64_t j = 0; j < Lk; ++j) {
          const double weight = std::exp(score[static_cast<size_t>(j)] - largest);
          denominator += weight;
          for (int64_t e = 0; e < dv; ++e) o[e] += weight * vh[j * dv + e];
        }
        for (int64_t e = 0; c.renormalize && e < dv; ++e) o[e] /= denominator;
      }
    }
  }
  return out;
}

TEST_P(ExactAttention, EqualsTheDefinition) {
  const Case& c = GetParam();
  const Tensor q = RandomTensor(c.q, c.deviation, 1), k = RandomTensor(c.k, c.deviation, 2),
               v = RandomTensor(c.v, 1, 3);
  const int64_t length = c.k[c.k.rank() - 2];
  Tensor mask({length});
  for (int64_t i = 0; i < length; ++i) mask.Data<float>()[i] = i % 3 == 1 ? 1 : 0;
  AttentionOptions options{.attention = "exact", .causal = c.causal, .renormalize = c.renormalize};
  if (c.masked) options.key_mask = mask;
  const Tensor want = Oracle(q, k, v, c.masked ? &mask : nullptr, c);
  for (const bool reference : {false, true}) {
    options.reference = reference;
    const Tensor out = Attend(q, k, v, options, Context());
    Tensor flat(want.shape(), DataType::kF64);
    const Tensor wide = out.To(DataType::kF64);
    std::memcpy(flat.Data<double>(), wide.Data<double>(), static_cast<size_t>(wide.Bytes()));
    double size = 1;
    for (int64_t i = 0; i < want.shape().Elements(); ++i)
      size = std::max(size, std::fabs(want.Data<double>()[i]));
    EXPECT_LE(LargestDifference(flat, want),
              (reference ? 1e-12 : 1e-5) * (c.renormalize ? 1 : size));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Exact, ExactAttention,
    testing::Values(Case{{200, 64}, {200, 64}, {200, 64}, false, false, 2},
                    Case{{200, 64}, {200, 64}, {200, 64}, true, false, 2},
                    Case{{201, 64}, {201, 64}, {201, 64}, true, true, 1},
                    Case{{33, 64}, {150, 64}, {150, 64}, false, true, 2},
                    Case{{2, 6, 50, 64}, {2, 2, 70, 64}, {2, 2, 70, 33}, false, false, 2},
                    Case{{2, 6, 70, 64}, {2, 3, 70, 64}, {2, 3, 70, 5}, true, false, 2},
                    Case{{1, 5}, {1, 5}, {1, 1}, true, false, 1},
                    Case{{40, 16}, {40, 16}, {40, 7}, false, false, 1, false},
                    Case{{70, 64}, {70, 64}, {70, 64}, true, false, 30}));

TEST(Exact, SkipsNothingAtBlockBorders) {
  for (const int64_t length : {15, 16, 17, 63, 64, 65, 128, 129}) {
    const Case c{{length, 8}, {length, 8}, {length, 3}, true, false, 1};
    const Tensor q = RandomTensor(c.q, 1, 1), k = RandomTensor(c.k, 1, 2),
                 v = RandomTensor(c.v, 1, 3);
    const Tensor out = Attend(q, k, v, {.attention = "exact", .causal = true}, Context());
    const Tensor wide = out.To(DataType::kF64), want = Oracle(q, k, v, nullptr, c);
    for (int64_t i = 0; i < length * 3; ++i)
      EXPECT_NEAR(wide.Data<double>()[i], want.Data<double>()[i], 1e-5) << length;
  }
}

TEST(Exact, GivesTheSameBitsForAnyNumberOfThreads) {
  const Tensor q = RandomTensor({3, 300, 16}, 1, 1);
  const Tensor one =
      Attend(q, q, q, {.attention = "exact", .causal = true}, Context({.threads = 1}));
  for (const int threads : {2, 3, 8, 16}) {
    const Tensor many =
        Attend(q, q, q, {.attention = "exact", .causal = true}, Context({.threads = threads}));
    EXPECT_EQ(std::memcmp(one.Data<float>(), many.Data<float>(), static_cast<size_t>(one.Bytes())),
              0);
  }
}

TEST(Baselines, AreTheMeanAndTheValues) {
  const Tensor q = RandomTensor({4, 2}, 1, 1), v = RandomTensor({4, 3}, 1, 2);
  const Tensor mean = Attend(q, q, v, {.attention = "uniform"}, Context()),
               prefix = Attend(q, q, v, {.attention = "uniform", .causal = true}, Context());
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) {
    sum += v.Data<float>()[i * 3 + 1];
    EXPECT_NEAR(prefix.Data<float>()[i * 3 + 1], sum / static_cast<double>(i + 1), 1e-6);
  }
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(mean.Data<float>()[i * 3 + 1], sum / 4, 1e-6);
  EXPECT_EQ(LargestDifference(Attend(q, q, v, {.attention = "identity"}, Context()), v), 0);
}

// Compares compat with φ by the published formulas and the whole L×L matrix, in double.
class CompatFormula : public testing::TestWithParam<std::tuple<Compat, bool, std::string>> {};

TEST_P(CompatFormula, IsReproduced) {
  const auto& [compat, causal, map] = GetParam();
  const bool torch = compat == Compat::kTorch, softmax = map == "positive";
  const int64_t length = 60, d = 16, m = 40;
  const Tensor q = RandomTensor({length, d}, 1, 1), k = RandomTensor({length, d}, 1, 2),
               v = RandomTensor({length, 5}, 1, 3);
  const auto plan = FeaturePlan::Draw({.map = map, .features = m}, 1, d, 4);
  const Tensor omega = plan.Omega();
  const double scale = softmax || torch ? std::pow(d, -0.25) : 1,
               epsilon = softmax ? (torch ? 1e-4 : 1e-6) : 1e-3;
  const auto phi = [&](const Tensor& x, bool keys) {
    std::vector<double> u(static_cast<size_t>(length * m)), half(static_cast<size_t>(length), 0.0),
        result(u.size());
    double all = -INFINITY;
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t c = 0; c < d; ++c)
        half[static_cast<size_t>(i)] += std::pow(scale * x.Data<float>()[i * d + c], 2) / 2;
      for (int64_t r = 0; r < m; ++r) {
        double& value = u[static_cast<size_t>(i * m + r)];
        for (int64_t c = 0; c < d; ++c)
          value += scale * x.Data<float>()[i * d + c] * omega.Data<float>()[r * d + c];
        all = std::max(all, value);
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      const double* row = u.data() + i * m;
      const double stab = keys ? all : *std::max_element(row, row + m);
      for (int64_t r = 0; r < m; ++r) {
        result[static_cast<size_t>(i * m + r)] =
            softmax
                ? (std::exp(row[r] - half[static_cast<size_t>(i)] - stab) + epsilon) / std::sqrt(m)
                : std::max(row[r], 0.0) + epsilon;
      }
    }
    return result;
  };
  const auto pq = phi(q, false), pk = phi(k, true);
  const Tensor out = Attend(q, k, v, {.causal = causal, .plan = plan, .compat = compat}, Context());
  for (int64_t i = 0; i < length; ++i) {
    double denominator = 0, numerator[5] = {}, sum = 0;
    for (int64_t r = 0; r < m; ++r) sum += pq[static_cast<size_t>(i * m + r)];
    for (int64_t j = 0; j < (causal ? i + 1 : length); ++j) {
      double a = 0;
      for (int64_t r = 0; r < m; ++r)
        a += pq[static_cast<size_t>(i * m + r)] * pk[static_cast<size_t>(j * m + r)];
      denominator += a;
      for (int64_t c = 0; c < 5; ++c) numerator[c] += a * v.Data<float>()[j * 5 + c];
    }
    if (torch && causal) denominator += 1e-6 * sum;
    if (!torch && std::fabs(denominator) <= 1e-6) denominator += 2e-6;
    for (int64_t c = 0; c < 5; ++c)
      EXPECT_NEAR(out.Data<float>()[i * 5 + c], numerator[c] / denominator, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Compat, CompatFormula,
                         testing::Combine(testing::Values(Compat::kJax, Compat::kTorch),
                                          testing::Bool(), testing::Values("positive", "relu")));

}  // namespace
}  // namespace favor
