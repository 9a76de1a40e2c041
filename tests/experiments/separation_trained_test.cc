#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "experiments/separation_network.h"
#include "experiments/separation_task.h"
#include "tests/experiments/ran.h"
#include "tests/layers/check_gradients.h"

namespace favor::experiments {
namespace {

// Without noise, examples are the tokens that the paper writes down.
TEST(SeparationTask, ExamplesAreTheDataSets) {
  const SeparationTask task{.tokens = 12, .dim = 6, .noise = 0};
  const SeparationExamples examples = DrawExamples(task, 300, RandomStream(1, "test"));
  ASSERT_EQ(examples.rows.shape(), Shape({300 * 12, 6}));
  const double root = std::sqrt(std::log(12.0));
  std::vector<int64_t> places(12);
  int64_t ones = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const bool one = examples.labels[static_cast<size_t>(i)] == 1;
    ones += one ? 1 : 0;
    int64_t special = -1;
    for (int64_t j = 0; j < 12; ++j) {
      const float* row = examples.rows.Data<float>() + (i * 12 + j) * 6;
      if (row[0] != 0) {
        EXPECT_EQ(special, -1) << "two special tokens";
        special = j;
        EXPECT_NEAR(row[0], (one ? 1.2 : 0.01) * root, 1e-6);
      }
      for (int64_t c = 1; c < 6; ++c)
        EXPECT_NEAR(row[c], (c == 5 ? 0.8 : c - 1 == j % 4 ? 0.2 : 0) * root, 1e-6);
    }
    ASSERT_GE(special, 0);
    ++places[static_cast<size_t>(special)];
  }
  // Each within 4.5 standard deviations of its mean.
  EXPECT_NEAR(static_cast<double>(ones), 150, 4.5 * std::sqrt(75));
  for (const int64_t count : places)
    EXPECT_NEAR(static_cast<double>(count), 25, 4.5 * std::sqrt(25 * 11.0 / 12));
}

TEST(SeparationTask, NoiseIsThatOfTheTask) {
  const SeparationTask task{.tokens = 8, .dim = 6, .a0 = 0, .a1 = 0, .noise = 0.5};
  const SeparationExamples examples = DrawExamples(task, 500, RandomStream(1, "test"));
  double sum = 0, squares = 0;
  for (int64_t j = 0; j < 4000; ++j) {
    const double x = static_cast<double>(examples.rows.Data<float>()[j * 6]);
    sum += x / 4000;
    squares += x * x / 4000;
  }
  EXPECT_NEAR(sum, 0, 4.5 * 0.5 / std::sqrt(4000));
  EXPECT_NEAR(squares, 0.25, 4.5 * 0.25 * std::sqrt(2.0 / 4000));
}

// Densities of all tokens, given each place of the special one: Bayes by hand.
TEST(SeparationTask, LikelihoodIsThatOfBayes) {
  const SeparationTask task{.tokens = 4, .dim = 4, .a0 = 0.3, .a1 = 1.2, .noise = 0.7};
  const SeparationExamples examples = DrawExamples(task, 400, RandomStream(2, "test"));
  const double root = std::sqrt(std::log(4.0));
  int64_t right = 0;
  for (int64_t i = 0; i < 400; ++i) {
    double likelihood[2] = {0, 0};
    for (const int label : {0, 1}) {
      for (int64_t special = 0; special < 4; ++special) {
        double density = 1;
        for (int64_t j = 0; j < 4; ++j) {
          const double x = static_cast<double>(examples.rows.Data<float>()[(i * 4 + j) * 4]),
                       mean = j == special ? (label == 1 ? 1.2 : 0.3) * root : 0;
          density *= std::exp(-std::pow((x - mean) / 0.7, 2) / 2);
        }
        likelihood[label] += density;
      }
    }
    right += (likelihood[1] > likelihood[0]) == (examples.labels[static_cast<size_t>(i)] == 1);
  }
  EXPECT_EQ(RightByLikelihood(task, examples), right);
  EXPECT_GT(right, 220);
}

// σ²·χ² of n degrees, shifted by a1²·ln n in D1: its normal approximation.
TEST(SeparationTask, SquaresAreRightAsOftenAsTheNormalLawSays) {
  const SeparationTask task{.tokens = 512};
  const SeparationExamples examples = DrawExamples(task, 1000, RandomStream(3, "test"));
  const double shift = 1.2 * 1.2 * std::log(512.0), variance = 0.48 * 0.48;
  const auto below = [](double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; };
  const double noise = std::sqrt(2 * 512.0) * variance,
               more = std::sqrt(noise * noise + 4 * shift * variance),
               expected = (below(shift / 2 / noise) + below(shift / 2 / more)) / 2;
  EXPECT_NEAR(static_cast<double>(RightBySquares(task, examples)) / 1000, expected,
              4.5 * std::sqrt(0.25 / 1000));
  EXPECT_NEAR(expected, 0.72, 0.03);
}

NetworkShape SmallShape(const char* attention, const char* map = "positive") {
  NetworkShape shape{.dim = 4, .head_dim = 3, .hidden = 5};
  shape.attention = {.attention = attention, .features = {.map = map, .features = 8}};
  if (std::string(map) == "identity") shape.attention.features.projection = "none";
  return shape;
}

class SmallNetwork {
 public:
  explicit SmallNetwork(const NetworkShape& shape)
      : network(shape, 7, DataType::kF64), rows(RandomDoubles({12, 4}, "rows")) {
    // Biases start at 0, where a wrong one would not show.
    for (const auto& parameter : network.parameters().all()) {
      const Tensor noise = RandomDoubles(parameter->shape, parameter->name);
      for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
        parameter->value.Data<double>()[i] += 0.2 * noise.Data<double>()[i];
    }
    network.parameters().ZeroGradients(context);
  }

  TallyEntry Run(double grad_scale) {
    const Tally tally = SeparationNetwork::MakeTally(context);
    network.Run({rows, labels}, grad_scale, tally, context);
    return tally.Read()[0];
  }
  const double* Value(const std::string& name) const {
    for (const auto& parameter : network.parameters().all())
      if (parameter->name == name) return parameter->value.Data<double>();
    ADD_FAILURE() << name;
    return nullptr;
  }

  Context context{{.threads = 2}};
  mutable SeparationNetwork network;
  Tensor rows;  // three sequences of four tokens
  const std::vector<int32_t> labels = {1, 0, 1};
};

// The whole network in plain loops.
TEST(SeparationNetwork, ComputesWhatItSays) {
  SmallNetwork small(SmallShape("exact"));
  const auto layer = [&](const std::string& name, const std::vector<double>& x) {
    const double *weight = small.Value(name + ".weight"), *bias = small.Value(name + ".bias");
    const size_t out = name == "hidden"           ? 5
                       : name == "output"         ? 2
                       : name.ends_with("output") ? 4
                                                  : 3;
    std::vector<double> y(bias, bias + out);
    for (size_t i = 0; i < out; ++i)
      for (size_t j = 0; j < x.size(); ++j) y[i] += weight[i * x.size() + j] * x[j];
    return y;
  };
  double loss = 0;
  int64_t correct = 0;
  for (size_t sequence = 0; sequence < 3; ++sequence) {
    std::vector<std::vector<double>> q, k, v;
    for (size_t j = 0; j < 4; ++j) {
      const double* at = small.rows.Data<double>() + (sequence * 4 + j) * 4;
      const std::vector<double> x(at, at + 4);
      q.push_back(layer("attention.query", x));
      k.push_back(layer("attention.key", x));
      v.push_back(layer("attention.value", x));
    }
    std::vector<double> pooled(5);
    for (size_t i = 0; i < 4; ++i) {
      std::vector<double> attended(3);
      double sum = 0;
      for (size_t j = 0; j < 4; ++j) {
        double logit = 0;
        for (size_t c = 0; c < 3; ++c) logit += q[i][c] * k[j][c] / std::sqrt(3.0);
        sum += std::exp(logit);
        for (size_t c = 0; c < 3; ++c) attended[c] += std::exp(logit) * v[j][c];
      }
      for (double& value : attended) value /= sum;
      const std::vector<double> hidden = layer("hidden", layer("attention.output", attended));
      for (size_t c = 0; c < 5; ++c) pooled[c] += std::max(hidden[c], 0.0) / 4;
    }
    const std::vector<double> logits = layer("output", pooled);
    const auto label = static_cast<size_t>(small.labels[sequence]);
    loss -= logits[label] - std::log(std::exp(logits[0]) + std::exp(logits[1]));
    correct += logits[label] > logits[1 - label] ? 1 : 0;
  }
  const TallyEntry found = small.Run(0);
  EXPECT_NEAR(found.loss, loss, 1e-10);
  EXPECT_EQ(found.correct, correct);
  EXPECT_EQ(found.targets, 3);
}

TEST(SeparationNetwork, GradientsAreThoseOfTheLoss) {
  for (const NetworkShape& shape :
       {SmallShape("exact"), SmallShape("linear", "positive"), SmallShape("linear", "taylor")}) {
    SmallNetwork small(shape);
    small.Run(1);
    for (const auto& parameter : small.network.parameters().all())
      ExpectGradient(parameter->name, parameter->value, parameter->grad,
                     [&] { return small.Run(0).loss; });
  }
}

TrainedRun SmallRun(const char* attention) {
  TrainedRun run{.task = {},
                 .sizes = {16, 32},
                 .network = {},
                 .training = {.steps = 60,
                              .batch = 16,
                              .learning_rate = 0.02,
                              .warmup = 10,
                              .weight_decay = 0,
                              .clip = 1,
                              .seed = 5},
                 .asked = 200};
  run.network.attention.attention = attention;
  return run;
}

// Exact attention learns what uniform attention, which sees only means, cannot.
TEST(SeparationTraining, LearnsForAnyNumberOfThreads) {
  const auto one = TrainAndTest(SmallRun("exact"), Context({.threads = 1}));
  ASSERT_EQ(one.size(), 2u);
  for (const TrainedResult& result : one) {
    EXPECT_GT(result.right, 165);
    EXPECT_EQ(result.skipped, 0);
  }
  for (const int threads : {2, 3}) {
    const auto other = TrainAndTest(SmallRun("exact"), Context({.threads = threads}));
    EXPECT_EQ(other[0].right, one[0].right);
    EXPECT_EQ(other[1].right, one[1].right);
  }
  EXPECT_LT(TrainAndTest(SmallRun("uniform"), Context({.threads = 1}))[1].right, 155);
}

// A second size starts from what the first has taught.
TEST(SeparationTraining, GoesOnFromTheSmallerSizes) {
  const Context context({.threads = 2});
  TrainedRun both = SmallRun("exact"), second = SmallRun("exact"), first = SmallRun("exact");
  both.training.steps = second.training.steps = first.training.steps = 30;
  second.sizes = {32};
  first.sizes = {16};
  const auto of_both = TrainAndTest(both, context);
  EXPECT_EQ(of_both[0].right, TrainAndTest(first, context)[0].right);
  EXPECT_NE(of_both[1].right, TrainAndTest(second, context)[0].right);
}

// 200 examples of which the last batch is shorter, the same for every network of a seed.
TEST(SeparationTraining, AsksEveryNetworkForTheSameExamples) {
  const auto asked = [](const TrainedRun& run, int64_t tokens) {
    std::vector<float> firsts;
    int64_t count = 0;
    ForEachAsked(run, tokens, [&](const SeparationTask& task, const SeparationExamples& examples) {
      EXPECT_EQ(task.tokens, tokens);
      EXPECT_EQ(examples.rows.shape()[0], examples.count() * tokens);
      count += examples.count();
      firsts.push_back(examples.rows.Data<float>()[0]);
    });
    EXPECT_EQ(count, 200);
    return firsts;
  };
  const std::vector<float> some = asked(SmallRun("exact"), 16);
  EXPECT_EQ(some.size(), 13u);
  EXPECT_NE(some[0], some[1]);
  EXPECT_EQ(some, asked(SmallRun("uniform"), 16));
  TrainedRun other = SmallRun("exact");
  other.training.seed = 6;
  EXPECT_NE(some, asked(other, 16));
}

// Means, errors and verdicts follow from the draws that are listed.
TEST(SeparationTrained, ReportsTheDrawsThatItMade) {
  const Ran ran("separation-trained", Scale::kQuick, 2);
  std::map<std::pair<std::string, int64_t>, std::vector<double>> draws;
  for (const auto& row : ran.results["accuracy"]) {
    const auto shares = row["draws"].get<std::vector<double>>();
    ASSERT_EQ(shares.size(), 2u);
    draws[{row["attention"], row["tokens"]}] = shares;
    EXPECT_NEAR(Number(row, "mean"), (shares[0] + shares[1]) / 2, 1e-12);
    const double mean = std::clamp((shares[0] + shares[1]) / 2, 1 / 400.0, 1 - 1 / 400.0),
                 of_draws = std::fabs(shares[0] - shares[1]) / 2,
                 of_answers = std::sqrt(mean * (1 - mean) / 400);
    EXPECT_NEAR(Number(row, "standard_error"), std::max(of_draws, of_answers), 1e-12);
  }
  const auto& table = ran.Table("Right answers of trained networks");
  ASSERT_EQ(table.columns, (std::vector<std::string>{"attention", "n = 16", "n = 64"}));
  EXPECT_EQ(table.rows.size() * 2, draws.size());
  ASSERT_EQ(table.rows[0][0], "exact");
  // 4.5 standard errors of 200 answers above chance: 0.6591.
  const auto& exact = draws.at({"exact", 16});
  const auto learned = std::ranges::count_if(exact, [](double share) { return share > 0.6591; });
  EXPECT_TRUE(table.rows[0][1].ends_with(fmt::format(" ({}/2)", learned))) << table.rows[0][1];
  std::vector<Comparison> gaps;
  for (const int64_t tokens : {16, 64}) {
    const auto &best = draws.at({"computed: likelihood ratio", tokens}),
               &of_exact = draws.at({"exact", tokens}),
               &of_relu = draws.at({"relu, 64 features", tokens});
    EXPECT_LE(of_exact[0] + of_exact[1], best[0] + best[1] + 0.05);  // no test is better
    const double first = of_exact[0] - of_relu[0], second = of_exact[1] - of_relu[1];
    gaps.push_back(
        {{(first + second) / 2, std::max(std::fabs(first - second) / 2, 1 / 400.0), 1}, 0.05});
  }
  EXPECT_EQ(ran.ClaimOf("relu, 64 features").verdict, AllAtMost(gaps));
  EXPECT_EQ(ran.ClaimOf("relu, 64 features").measured, NearestToBound(gaps, Bound::kMost));
  // The lesson has the gaps at the largest n.
  EXPECT_NE(
      ran.report.body().find(fmt::format("relu, 64 features ({:.3f})", gaps.back().measured.value)),
      std::string::npos);
}

}  // namespace
}  // namespace favor::experiments
