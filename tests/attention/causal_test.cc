// Causal attention is causal at any norm and with any chunk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/attention/oracle.h"

namespace favor {
namespace {

// Keys that dominate a feature, explode or vanish at the end of the sequence.
std::vector<Tensor> Intruders(const Tensor& k, const FeaturePlan& plan) {
  const int64_t length = k.shape()[0], d = k.shape()[1];
  const Tensor omega = plan.Omega();
  std::vector<Tensor> changed;
  for (const int kind : {0, 1, 2, 3}) {
    Tensor other = k.Clone();
    float* last = other.Data<float>() + (length - 1) * d;
    for (int64_t i = 0; i < d; ++i) {
      const double root = std::pow(static_cast<double>(d), 0.25);
      if (kind == 0) last[i] = static_cast<float>(root * omega.Data<float>()[i]);
      if (kind == 1) last[i] = static_cast<float>(root * omega.Data<float>()[5 * d + i]);
      if (kind == 2) last[i] *= 1000;
      if (kind == 3) last[i] = 0;
    }
    changed.push_back(std::move(other));
  }
  return changed;
}

double EarlierChange(const Tensor& a, const Tensor& b) {
  const int64_t length = a.shape()[0], d = a.shape()[1];
  double largest = 0;
  for (int64_t i = 0; i < (length - 1) * d; ++i)
    largest =
        std::max(largest, static_cast<double>(std::fabs(a.Data<float>()[i] - b.Data<float>()[i])));
  return largest;
}

TEST(Causal, MeansCausal) {
  for (const double deviation : {1.0, 4.0}) {
    for (const int64_t length : {64, 101, 500}) {
      const int64_t d = 64;
      const Tensor q = RandomTensor({length, d}, deviation, 1),
                   k = RandomTensor({length, d}, deviation, 2), v = RandomTensor({length, d}, 1, 3);
      const Context context({.seed = 1});
      const auto plan = FeaturePlan::Draw({.features = 256}, 1, d, 1);
      const AttentionOptions options{.causal = true, .plan = plan};
      const Tensor base = Attend(q, k, v, options, context);
      for (const Tensor& other : Intruders(k, plan)) {
        EXPECT_LE(EarlierChange(base, Attend(q, other, v, options, context)), 1e-5)
            << deviation << " " << length;
      }
    }
  }
}

// The same test detects the leak of a key maximum over all positions with an epsilon of 1e-6.
TEST(Causal, TestSeesTheLeakOfPublicFormulas) {
  const int64_t length = 101, d = 64;
  const Tensor q = RandomTensor({length, d}, 1, 1), k = RandomTensor({length, d}, 1, 2),
               v = RandomTensor({length, d}, 1, 3);
  const Context context({.seed = 1});
  const auto plan = FeaturePlan::Draw({.features = 256}, 1, d, 1);
  const AttentionOptions options{.causal = true, .plan = plan, .compat = Compat::kJax};
  const Tensor base = Attend(q, k, v, options, context);
  double largest = 0;
  for (const Tensor& other : Intruders(k, plan))
    largest = std::max(largest, EarlierChange(base, Attend(q, other, v, options, context)));
  EXPECT_GT(largest, 1e-3);
}

// A chunk in which later keys dwarf earlier ones: without a smaller chunk, the first rows would
// divide zero by zero.
TEST(Causal, SurvivesExponentsThatRiseInsideAChunk) {
  const int64_t length = 64, d = 16;
  const auto plan = FeaturePlan::Draw({.features = 32}, 1, d, 1);
  const Tensor omega = plan.Omega();
  Tensor k({length, d});
  for (int64_t i = 0; i < length; ++i) {
    // Far away at first (exponents near −‖x‖²/2 = −2000), then nearer and nearer.
    const double radius = 120.0 * static_cast<double>(length - 1 - i) / static_cast<double>(length);
    for (int64_t c = 0; c < d; ++c)
      k.Data<float>()[i * d + c] = static_cast<float>(radius * (c == i % d ? 1 : 0));
  }
  const Tensor q = RandomTensor({length, d}, 1, 1), v = RandomTensor({length, 8}, 1, 3);
  for (const char* map : {"positive", "trigonometric"}) {
    const AttentionOptions options{.causal = true, .features = {.map = map, .features = 32}};
    AttentionOptions reference = options;
    reference.reference = true;
    AttentionReport report, reference_report;
    const Context context({.seed = 1});
    // Trigonometric exponents +‖x‖²/2 rise the other way round.
    Tensor keys = k.Clone();
    if (std::string(map) == "trigonometric") {
      for (int64_t i = 0; i < length; ++i) Copy(k.view().At(length - 1 - i), keys.view().At(i));
    }
    const Tensor out = Attend(q, keys, v, options, context, {.report = &report});
    const Tensor want = Attend(q, keys, v, reference, context, {.report = &reference_report});
    EXPECT_EQ(report.nonpositive_rows, reference_report.nonpositive_rows) << map;
    if (std::string(map) == "positive") {
      EXPECT_LE(LargestDifference(out, want), 2e-4) << map;
    }
  }
}

}  // namespace
}  // namespace favor
