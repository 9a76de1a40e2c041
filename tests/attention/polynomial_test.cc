// Attention with polynomials of q·k as kernels: weights by hand, signs, states and files.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "favor/error.h"
#include "io/safetensors.h"
#include "tests/attention/oracle.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

constexpr int64_t kHeads = 4, kKeyHeads = 2, kLength = 130, kDim = 7, kValueDim = 5;

struct Arrays {
  Tensor q = RandomTensor({kHeads, kLength, kDim}, 0.6, 1),
         k = RandomTensor({kKeyHeads, kLength, kDim}, 0.6, 2),
         v = RandomTensor({kKeyHeads, kLength, kValueDim}, 1, 3);
  Tensor mask{{kLength}};

  Arrays() {
    for (int64_t j = 0; j < kLength; ++j) mask.Data<float>()[j] = j % 11 == 3 ? 0.0f : 1.0f;
  }
};

// Attention by definition with weight(head, query row, key row) of rows scaled by dim^(−1/4), in
// double. Denominators ≤ 0 give rows of zeros; their number is returned.
template <class Weight>
int64_t ByHand(const Arrays& a, bool causal, bool masked, const Weight& weight, Tensor& out) {
  const double scale = std::pow(static_cast<double>(kDim), -0.25);
  const auto row = [&](const Tensor& x, int64_t head, int64_t index) {
    std::vector<double> values;
    for (int64_t c = 0; c < kDim; ++c)
      values.push_back(scale * x.Data<float>()[(head * kLength + index) * kDim + c]);
    return values;
  };
  out = Tensor({kHeads, kLength, kValueDim}, DataType::kF64);
  int64_t nonpositive = 0;
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t i = 0; i < kLength; ++i) {
      double denominator = 0;
      std::vector<double> sum(kValueDim, 0.0);
      for (int64_t j = 0; j < (causal ? i + 1 : kLength); ++j) {
        if (masked && a.mask.Data<float>()[j] == 0) continue;
        const double w = weight(h, row(a.q, h, i), row(a.k, h / 2, j));
        denominator += w;
        for (int64_t c = 0; c < kValueDim; ++c)
          sum[static_cast<size_t>(c)] +=
              w * a.v.Data<float>()[(h / 2 * kLength + j) * kValueDim + c];
      }
      nonpositive += denominator > 0 ? 0 : 1;
      for (int64_t c = 0; c < kValueDim; ++c)
        out.Data<double>()[(h * kLength + i) * kValueDim + c] =
            denominator > 0 ? sum[static_cast<size_t>(c)] / denominator : 0;
    }
  }
  return nonpositive;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The coefficients are negative here and there; the kernel stays positive for these rows.
TEST(PolynomialAttention, WeighsByThePolynomialWhateverItsSigns) {
  const Arrays a;
  const std::vector<double> c = {3, -0.5, 0.4, -0.1, 0.05};
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      Tensor want;
      EXPECT_EQ(ByHand(
                    a, causal, masked,
                    [&](int64_t, const auto& x, const auto& y) {
                      const double s = Dot(x, y);
                      return c[0] + s * (c[1] + s * (c[2] + s * (c[3] + s * c[4])));
                    },
                    want),
                0);
      AttentionOptions options{.causal = causal,
                               .features = {.map = "poly-exact", .coefficients = c}};
      if (masked) options.key_mask = a.mask;
      EXPECT_LT(LargestDifference(Attend(a.q, a.k, a.v, options, Context()), want), 1e-5);
      options.reference = true;
      EXPECT_LT(LargestDifference(Attend(a.q, a.k, a.v, options, Context()), want), 1e-11);
    }
  }
}

// Random features estimate s³ and its like with any sign: rows whose denominators are not positive
// are zeros and are counted, and all others are weighted sums.
TEST(PolynomialAttention, OfRandomFeaturesIsThatOfTheirProducts) {
  const Arrays a;
  for (const FeatureOptions& features :
       {FeatureOptions{.map = "poly-sum", .features = 24, .coefficients = {1, 1, -0.3, 0.2}},
        FeatureOptions{.map = "poly-sum", .features = 24, .degree = 3, .rotate = true},
        FeatureOptions{.map = "poly-sketch", .features = 32, .coefficients = {2, 1, 0.5}},
        FeatureOptions{.map = "poly-sketch", .features = 20, .degree = 3}}) {
    const auto plan = FeaturePlan::Draw(features, kHeads, kDim, 3);
    // φ of one row for all heads; the one of head h is used.
    const auto phi = [&](int64_t head, const std::vector<double>& row, FeatureRole role) {
      std::vector<double> rows;
      for (int64_t h = 0; h < kHeads; ++h) rows.insert(rows.end(), row.begin(), row.end());
      const Tensor all = Features(plan, ConstView(rows.data(), {kHeads, 1, kDim}), Context(), role);
      const double* own = all.Data<double>() + head * plan.width();
      return std::vector<double>(own, own + plan.width());
    };
    for (const bool causal : {false, true}) {
      Tensor want;
      const int64_t nonpositive = ByHand(
          a, causal, true,
          [&](int64_t h, const auto& x, const auto& y) {
            return Dot(phi(h, x, FeatureRole::kQuery), phi(h, y, FeatureRole::kKey));
          },
          want);
      const AttentionOptions options{
          .causal = causal, .key_mask = a.mask, .reference = true, .plan = plan};
      AttentionReport report;
      const Tensor out = Attend(a.q, a.k, a.v, options, Context(), {.report = &report});
      EXPECT_EQ(report.nonpositive_rows, nonpositive);
      double largest = 0;
      for (int64_t i = 0; i < want.shape().Elements(); ++i)
        largest = std::max(largest, std::fabs(want.Data<double>()[i]));
      EXPECT_LT(LargestDifference(out, want), 1e-9 * (1 + largest)) << features.map;
    }
  }
}

// Three keys of one dim with s² = 0.01, 0.25 and 4: the first query's denominator is 0.01, then
// 0.26 and 4.26.
TEST(PolynomialAttention, TreatsDenominatorsBelowTheLeastLikeThoseThatAreNotPositive) {
  Tensor q({3, 1}), k({3, 1}), v({3, 1}), grad_out({3, 1});
  for (int64_t i = 0; i < 3; ++i) {
    q.Data<float>()[i] = 1;
    k.Data<float>()[i] = std::array{0.1f, -0.5f, 2.0f}[static_cast<size_t>(i)];
    v.Data<float>()[i] = static_cast<float>(i + 1);
    grad_out.Data<float>()[i] = 1;
  }
  const TempDir dir;
  const Context context;
  for (const auto& [least, nonpositive] :
       {std::tuple{0.0, 0}, std::tuple{0.009, 0}, std::tuple{0.011, 1}, std::tuple{0.3, 2}}) {
    for (const bool reference : {false, true}) {
      const FeatureOptions features{.map = "poly-exact", .degree = 2, .least_denominator = least};
      const AttentionOptions options{.causal = true, .reference = reference, .features = features};
      AttentionReport report;
      const Tensor out = Attend(q, k, v, options, context, {.report = &report}).To(DataType::kF64);
      EXPECT_EQ(report.nonpositive_rows, nonpositive);
      EXPECT_NEAR(out.Data<double>()[0], nonpositive > 0 ? 0 : 1, 1e-6);
      EXPECT_NEAR(out.Data<double>()[1], nonpositive > 1 ? 0 : (0.01 + 2 * 0.25) / 0.26, 1e-6);
      EXPECT_NEAR(out.Data<double>()[2], (0.01 + 2 * 0.25 + 3 * 4) / 4.26, 1e-6);
      const Tensor again = Attend(q, k, v, options, context);
      const AttentionGradients gradients =
          AttendBackward({q, k, v, again, grad_out}, options, context);
      const Tensor grad_v = gradients.v.To(DataType::kF64);
      const double first =
          0.01 / 4.26 + (nonpositive > 1 ? 0 : 0.01 / 0.26) + (nonpositive > 0 ? 0 : 1);
      EXPECT_NEAR(grad_v.Data<double>()[0], first, 1e-6);
      if (reference) continue;
      AttentionState state(FeaturePlan::Draw(features, 1, 1, 1), {.value_dim = 1});
      state.Append(k.view().Range(0, 0, 2), v.view().Range(0, 0, 2), context);
      state.Save((dir.path() / "state").string());
      const Tensor read = AttentionState::Load((dir.path() / "state").string())
                              .Attend(q.view().Range(0, 0, 1), context);
      EXPECT_NEAR(read.Data<float>()[0], nonpositive > 1 ? 0 : (0.01 + 2 * 0.25) / 0.26, 1e-6);
    }
  }
  EXPECT_THROW(FeaturePlan::Draw({.map = "positive", .least_denominator = 1}, 1, 2, 1), Error);
  EXPECT_THROW(FeaturePlan::Draw({.map = "poly-sum", .least_denominator = -1}, 1, 2, 1), Error);
}

TEST(PolynomialAttention, TaylorIsAnInstanceOfItToTheLastBit) {
  const Arrays a;
  const Tensor grad_out = RandomTensor({kHeads, kLength, kValueDim}, 1, 4);
  for (const auto& [name, coefficients] : {std::tuple{"taylor", std::vector<double>{1, 1, 0.5}},
                                           std::tuple{"taylor1", std::vector<double>{1, 1}}}) {
    for (const bool causal : {false, true}) {
      const auto gradients = [&](const FeatureOptions& features) {
        const AttentionOptions options{.causal = causal, .features = features};
        const Tensor out = Attend(a.q, a.k, a.v, options, Context());
        return AttendBackward({a.q, a.k, a.v, out, grad_out}, options, Context());
      };
      const AttentionGradients own = gradients({.map = name}),
                               same =
                                   gradients({.map = "poly-exact", .coefficients = coefficients});
      EXPECT_EQ(LargestDifference(own.q, same.q), 0) << name;
      EXPECT_EQ(LargestDifference(own.k, same.k), 0) << name;
      EXPECT_EQ(LargestDifference(own.v, same.v), 0) << name;
    }
  }
}

TEST(PolynomialAttention, GivesTheSameBitsOnEveryNumberOfThreads) {
  const Arrays a;
  for (const char* map : {"poly-exact", "poly-sum", "poly-sketch"}) {
    const AttentionOptions options{
        .causal = true, .features = {.map = map, .features = 64, .coefficients = {4, 1, 0.5, 0.1}}};
    const Tensor one = Attend(a.q, a.k, a.v, options, Context({.threads = 1}));
    for (const int threads : {2, 3, 8})
      EXPECT_EQ(
          LargestDifference(one, Attend(a.q, a.k, a.v, options, Context({.threads = threads}))), 0)
          << map;
  }
}

// A map without ω is saved as its name, dim and polynomial, with the tables that it drew.
TEST(State, OfARowMapIsSavedAndLoaded) {
  const TempDir dir;
  const Context context;
  for (const FeatureOptions& options :
       {FeatureOptions{.map = "taylor1"}, FeatureOptions{.map = "taylor"},
        FeatureOptions{.map = "poly-exact", .coefficients = {1, -0.3, 0.1, 0.7}},
        FeatureOptions{.map = "poly-sum", .features = 9, .coefficients = {2, 0, -0.25, 0.5}},
        FeatureOptions{.map = "poly-sum", .features = 9, .degree = 4, .rotate = true},
        FeatureOptions{.map = "poly-sketch", .features = 12, .shared_omega = true, .degree = 3},
        FeatureOptions{.map = "poly-sketch", .features = 16, .degree = 2}}) {
    const auto plan = FeaturePlan::Draw(options, 2, 5, 1);
    const Tensor q = RandomTensor({2, 6, 5}, 0.3, 1), k = RandomTensor({2, 6, 5}, 0.3, 2),
                 v = RandomTensor({2, 6, 3}, 1, 3);
    AttentionState state(plan, {.value_dim = 3});
    state.Append(k, v, context);
    const std::string path = (dir.path() / options.map).string();
    state.Save(path);
    AttentionState loaded = AttentionState::Load(path);
    EXPECT_EQ(LargestDifference(loaded.Attend(q, context), state.Attend(q, context)), 0);
    loaded.Merge(state);
    EXPECT_EQ(loaded.tokens(), 12);
    if (!plan.map().is_random) continue;
    const AttentionState other(FeaturePlan::Draw(options, 2, 5, 2), {.value_dim = 3});
    EXPECT_THROW(loaded.Merge(other), Error);  // other tables
  }
}

TEST(StateFile, RefusesTablesThatCannotHaveBeenDrawn) {
  const TempDir dir;
  const std::string path = (dir.path() / "state").string();
  for (const auto& [map, rotate, bad] :
       {std::tuple{"poly-sum", false, -1.0}, std::tuple{"poly-sum", false, 4.0},
        std::tuple{"poly-sum", false, 0.5}, std::tuple{"poly-sum", true, 8.0},
        std::tuple{"poly-sketch", false, 0.0}, std::tuple{"poly-sketch", false, -4.0},
        std::tuple{"poly-sketch", false, 4.0}, std::tuple{"poly-sketch", false, 1e30}}) {
    const FeatureOptions options{.map = map, .features = 3, .degree = 3, .rotate = rotate};
    AttentionState(FeaturePlan::Draw(options, 1, 4, 1), {.value_dim = 1}).Save(path);
    const std::string bytes = ReadText(path);
    const io::Safetensors good = io::ParseSafetensors(std::as_bytes(std::span(bytes)), path);
    const io::SafetensorsEntry& table = good.Entry("table", path);
    for (const size_t at : {size_t{0}, static_cast<size_t>(table.shape[1]) - 1}) {
      std::vector<double> numbers = table.Values<double>(path);
      numbers[at] = bad;
      io::Safetensors file = good;
      file.metadata.erase("checksum");
      file.Add("table", table.shape, numbers);
      io::WriteSafetensors(path + ".bad", file);
      try {
        AttentionState::Load(path + ".bad");
        ADD_FAILURE() << map << " " << bad << " at " << at;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
        EXPECT_NE(std::string(error.what()).find("cannot have drawn"), std::string::npos)
            << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace favor
