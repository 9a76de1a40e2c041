#include "experiments/contestant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace favor::experiments {
namespace {

using Vectors = std::vector<std::vector<double>>;

// Every token of one of the lists, in order.
Vectors Written(const Tokens& tokens) {
  Vectors all;
  for (const int64_t kind : tokens.order)
    all.emplace_back(tokens.rows[kind], tokens.rows[kind] + tokens.rows.columns);
  return all;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += a[i] * b[i];
  return dot;
}

double Sum(const std::vector<double>& a) { return Dot(a, std::vector<double>(a.size(), 1)); }

// Attention as it is defined: weights of each pair of places, divided by their sum.
using Weight = std::function<double(size_t query, size_t key, double logit)>;
Vectors PlainOutputs(const TokenData& data, Between between, const Weight& weight) {
  const Vectors queries = Written(data.queries), keys = Written(data.keys);
  Vectors outputs;
  for (size_t i = 0; i < queries.size(); ++i) {
    std::vector<double> out(keys[0].size());
    double sum = 0;
    for (size_t j = 0; j < keys.size(); ++j) {
      const double logit =
          between == Between::kIdentity ? Dot(queries[i], keys[j]) : Sum(queries[i]) * Sum(keys[j]);
      const double w = weight(i, j, logit);
      sum += w;
      for (size_t c = 0; c < out.size(); ++c) out[c] += w * keys[j][c];  // values are the keys
    }
    // Signed features: a denominator that is not above 0 has the output 0.
    for (double& value : out) value = sum > 0 ? value / sum : 0;
    outputs.push_back(out);
  }
  return outputs;
}

void ExpectOutputs(const Rows& outputs, const Vectors& plain, double tolerance,
                   const std::string& name) {
  ASSERT_EQ(outputs.size(), std::ssize(plain)) << name;
  for (size_t i = 0; i < plain.size(); ++i) {
    for (size_t c = 0; c < plain[i].size(); ++c)
      EXPECT_NEAR(outputs[static_cast<int64_t>(i)][static_cast<int64_t>(c)], plain[i][c], tolerance)
          << name << " " << i << " " << c;
  }
}

AttentionOptions Linear(const char* map) {
  return {.attention = "linear", .features = {.map = map}};
}

// The special token is in the middle: a wrong order of tokens would show in windows.
TokenData SmallSelf() { return SelfTokens({.tokens = 24, .dim = 8, .a = 1.2, .special = 11}); }

TEST(Contestant, AttentionsWithoutRandomnessAreWhatTheyAreDefinedToBe) {
  const Context context({.threads = 2});
  Contestant window{.name = "window", .attention = {.attention = "exact-window"}};
  window.attention.kind_options = {{"window", 3}};
  Contestant identity{.name = "identity features", .attention = Linear("identity")};
  identity.attention.features.projection = "none";
  identity.attention.features.kernel_epsilon = 0;
  Contestant power{.name = "power", .attention = Linear("poly-exact")};
  power.attention.features.degree = 3;
  AttentionOptions series = Linear("poly-exact");
  series.features.coefficients = {2, 0, 0, 0, 1.0 / 24};
  const std::vector<std::pair<Contestant, Weight>> cases = {
      {{.name = "exact", .attention = {.attention = "exact"}},
       [](size_t, size_t, double s) { return std::exp(s); }},
      {window, [](size_t i, size_t j,
                  double s) { return std::max(i, j) - std::min(i, j) <= 3 ? std::exp(s) : 0; }},
      {{.name = "uniform", .attention = {.attention = "uniform"}},
       [](size_t, size_t, double) { return 1.0; }},
      {identity, [](size_t, size_t, double s) { return s; }},
      {{.name = "taylor1", .attention = Linear("taylor1")},
       [](size_t, size_t, double s) { return 1 + s; }},
      {{.name = "taylor", .attention = Linear("taylor")},
       [](size_t, size_t, double s) { return 1 + s + s * s / 2; }},
      {power, [](size_t, size_t, double s) { return s * s * s; }},
      {{.name = "series", .attention = series},
       [](size_t, size_t, double s) { return 2 + s * s * s * s / 24; }}};
  for (const auto& [contestant, weight] : cases) {
    EXPECT_FALSE(contestant.IsDrawn()) << contestant.name;
    for (const Between between : {Between::kIdentity, Between::kOnes}) {
      const TokenData data = SmallSelf();
      ExpectOutputs(OutputsBy(contestant, data, between, 0, context),
                    PlainOutputs(data, between, weight), 2e-5, contestant.name);
    }
    if (contestant.name == "window") continue;
    const TokenData cross = CrossTokens({.tokens = 20, .dim = 5, .a = 3});
    ExpectOutputs(OutputsBy(contestant, cross, Between::kIdentity, 0, context),
                  PlainOutputs(cross, Between::kIdentity, weight), 2e-5, contestant.name);
  }
  // Identity features have the weights of the paper's linear attention.
  const Rows linear = OutputsOf(SmallSelf(), Between::kIdentity, Weighting::kLinear),
             by_features = OutputsBy(identity, SmallSelf(), Between::kIdentity, 0, context);
  for (int64_t c = 0; c < linear.columns; ++c) EXPECT_NEAR(linear[0][c], by_features[11][c], 2e-5);
}

// φ(q)·φ(k) of the rows as attention gets them, computed apart from Attend.
TEST(Contestant, RandomFeaturesAreWhatTheyAreDefinedToBe) {
  const Context context({.threads = 2, .seed = 3});
  const TokenData data = SelfTokens({.tokens = 24, .dim = 8, .a = 0.8, .special = 11});
  for (const char* map : {"positive", "hyperbolic", "trigonometric", "regularized"}) {
    for (const double gain : {1.0, 0.5}) {
      Contestant contestant{.name = map, .attention = Linear(map), .gain = gain};
      contestant.attention.features.features = 64;
      EXPECT_TRUE(contestant.IsDrawn());
      const auto plan = FeaturePlan::Draw(contestant.attention.features, 1, 8, 3, /*redraw=*/5);
      const auto features = [&](double factor) {
        Tensor rows({24, 8}, DataType::kF64);
        double* out = rows.Data<double>();
        for (const auto& row : Written(data.keys))
          for (const double value : row) *out++ = factor * value;
        return Features(plan, rows, context);
      };
      const Tensor q = features(gain), k = features(1 / gain);
      const int64_t width = plan.width();
      EXPECT_EQ(contestant.Width(data, Between::kIdentity), width);
      const auto weight = [&](size_t i, size_t j, double) {
        double sum = 0;
        for (int64_t r = 0; r < width; ++r)
          sum += q.Data<double>()[static_cast<int64_t>(i) * width + r] *
                 k.Data<double>()[static_cast<int64_t>(j) * width + r];
        return sum;
      };
      ExpectOutputs(OutputsBy(contestant, data, Between::kIdentity, 5, context),
                    PlainOutputs(data, Between::kIdentity, weight), 1e-3, map);
      // Another redraw has other features.
      EXPECT_NE(OutputsBy(contestant, data, Between::kIdentity, 5, context).values,
                OutputsBy(contestant, data, Between::kIdentity, 6, context).values);
    }
  }
}

// Random powers: unbiased estimates of the weights, so that many features come near to them.
TEST(Contestant, RandomPowersEstimatePowers) {
  const Context context({.threads = 2, .seed = 3});
  const TokenData data = SelfTokens({.tokens = 24, .dim = 8, .a = 1.2});
  const Vectors powers =
      PlainOutputs(data, Between::kIdentity, [](size_t, size_t, double s) { return s * s * s; });
  for (const char* map : {"poly-sum", "poly-sketch"}) {
    Contestant contestant{.name = map, .attention = Linear(map)};
    contestant.attention.features.degree = 3;
    contestant.attention.features.features = 16384;
    contestant.attention.features.rotate = std::string(map) == "poly-sum";
    EXPECT_TRUE(contestant.IsDrawn());
    ExpectOutputs(OutputsBy(contestant, data, Between::kIdentity, 0, context), powers, 0.1, map);
  }
}

// Many features come near to softmax, with every way to help them.
TEST(Contestant, FeaturesEstimateSoftmax) {
  const Context context({.threads = 2, .seed = 3});
  const TokenData data = SelfTokens({.tokens = 24, .dim = 8, .a = 0.3, .b = 0.2, .c = 0.3});
  for (const Between between : {Between::kIdentity, Between::kOnes}) {
    const Vectors softmax =
        PlainOutputs(data, between, [](size_t, size_t, double s) { return std::exp(s); });
    for (const auto& [map, centred, gain, on_span] :
         {std::tuple("positive", false, 1.0, false), std::tuple("positive", true, 1.0, false),
          std::tuple("oprf", true, 0.5, false), std::tuple("hyperbolic", true, 2.0, false),
          std::tuple("oprf", true, 1.0, true)}) {
      if (on_span && between == Between::kOnes) continue;
      Contestant contestant{
          .name = map, .attention = Linear(map), .gain = gain, .on_span = on_span};
      contestant.attention.features.features = 8192;
      contestant.attention.center_keys = centred;
      ExpectOutputs(OutputsBy(contestant, data, between, 0, context), softmax, 0.03, map);
    }
  }
}

}  // namespace
}  // namespace favor::experiments
