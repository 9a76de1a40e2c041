#include "experiments/recall.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiments/experiment.h"

namespace favor::experiments {
namespace {

constexpr uint64_t kSeed = 4;

std::vector<double> RowOf(const Tensor& rows, int64_t row) {
  const int64_t dim = rows.shape()[1];
  const float* data = rows.Data<float>() + row * dim;
  return {data, data + dim};
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(DrawPairs, AreUnitKeysAndRowsOfTheCodebook) {
  const Pairs few = DrawPairs(5, 6, kSeed, 1), more = DrawPairs(40, 6, kSeed, 1),
              other = DrawPairs(5, 6, kSeed, 2);
  for (int64_t row = 0; row < kCodebookRows; ++row) {
    const auto value = RowOf(few.codebook, row);
    EXPECT_NEAR(Dot(value, value), 1, 1e-6);
  }
  for (int64_t i = 0; i < 5; ++i) {
    const auto key = RowOf(few.keys, i);
    EXPECT_NEAR(Dot(key, key), 1, 1e-6);
    EXPECT_EQ(RowOf(few.values, i), RowOf(few.codebook, few.rows[static_cast<size_t>(i)]));
    EXPECT_EQ(key, RowOf(more.keys, i));
    EXPECT_EQ(few.rows[static_cast<size_t>(i)], more.rows[static_cast<size_t>(i)]);
    EXPECT_NE(key, RowOf(other.keys, i));
  }
  EXPECT_NE(few.rows, other.rows);
  EXPECT_GT(std::ranges::max(more.rows), kCodebookRows / 2);  // 40 of them: fails once in 2^40
  EXPECT_LT(std::ranges::max(more.rows), kCodebookRows);
}

// The projected unit vectors are the matrix; its elements have variance 1/p.
TEST(Project, IsARandomMatrixThatKeepsNormsOnAverage) {
  constexpr int64_t kDim = 64, kTo = 8;
  Tensor unit({kDim, kDim});
  for (int64_t i = 0; i < kDim; ++i) unit.Data<float>()[i * kDim + i] = 1;
  const Tensor matrix = Project(unit, kTo, kSeed, 3);
  double squares = 0;
  for (int64_t i = 0; i < kDim * kTo; ++i) squares += std::pow(matrix.Data<float>()[i], 2);
  // χ² with 512 degrees of freedom, 4 standard deviations.
  EXPECT_NEAR(squares / kDim, 1, 4 * std::sqrt(2.0 / (kDim * kTo)));

  const Pairs pairs = DrawPairs(3, kDim, kSeed, 0);
  const Tensor projected = Project(pairs.keys, kTo, kSeed, 3);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t r = 0; r < kTo; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < kDim; ++j)
        sum += pairs.keys.Data<float>()[i * kDim + j] * matrix.Data<float>()[j * kTo + r];
      EXPECT_NEAR(projected.Data<float>()[i * kTo + r], sum, 1e-5);
    }
  }
}

// S, z and a maximum per feature in f64; S and z in f32; keys and values in f32.
TEST(BytesOf, CountsNumbers) {
  const MemoryBytes exact = BytesOf({}, 5, 3);
  EXPECT_EQ(exact.state, 3 * (5 + 5) * 4);
  EXPECT_EQ(exact.single, 3 * (5 + 5) * 4);
  const MemoryBytes relu = BytesOf({.map = "relu", .features = 7}, 5, 3);
  EXPECT_EQ(relu.state, 7 * (5 + 1 + 1) * 8);
  EXPECT_EQ(relu.single, 7 * (5 + 1) * 4);
  EXPECT_EQ(BytesOf({.map = "relu", .features = 7}, 5, 300).state, relu.state);
  const MemoryBytes taylor = BytesOf({.map = "taylor", .feature_dim = 3}, 5, 3);
  EXPECT_EQ(taylor.state, (1 + 3 + 6) * (5 + 1 + 1) * 8);
  EXPECT_EQ(taylor.single, (1 + 3 + 6) * (5 + 1) * 4);
}

TEST(CountRight, ComparesWithTheRowOfTheLargestDotProduct) {
  const Pairs pairs = DrawPairs(4, 16, kSeed, 0);
  Tensor out = pairs.values.Clone();
  for (int64_t i = 0; i < 4 * 16; ++i) out.Data<float>()[i] *= 0.01F;  // its length is irrelevant
  EXPECT_EQ(CountRight(out, pairs), 4);
  for (int64_t j = 0; j < 16; ++j) out.Data<float>()[2 * 16 + j] *= -1;
  EXPECT_EQ(CountRight(out, pairs), 3);
  std::copy_n(pairs.codebook.Data<float>() + (pairs.rows[0] + 1) % kCodebookRows * 16, 16,
              out.Data<float>());
  EXPECT_EQ(CountRight(out, pairs), 2);
}

// Right answers among the first `count` pairs of a draw, by sums over all pairs in double.
double ShareByHand(const Memory& memory, const RecallOptions& options, int64_t count,
                   double sharpness, uint64_t draw) {
  const Pairs pairs = DrawPairs(count, options.dim, kSeed, draw);
  const Tensor keys = memory.feature_dim > 0 ? Project(pairs.keys, memory.feature_dim, kSeed, draw)
                                             : pairs.keys.Clone();
  const int64_t dim = keys.shape()[1];
  Tensor scaled({count, dim}, DataType::kF64), phi;
  for (int64_t i = 0; i < count * dim; ++i)
    scaled.Data<double>()[i] = sharpness * keys.Data<float>()[i];
  int64_t width = 0;
  if (memory.features > 0) {
    const auto plan =
        FeaturePlan::Draw({.map = memory.map, .features = memory.features}, 1, dim, kSeed, draw);
    phi = Features(plan, scaled, Context({.threads = 1}));
    width = plan.width();
  }
  const auto kernel = [&](int64_t i, int64_t j) {
    if (memory.features > 0) {
      double sum = 0;
      for (int64_t r = 0; r < width; ++r)
        sum += phi.Data<double>()[i * width + r] * phi.Data<double>()[j * width + r];
      return sum;
    }
    const double score = sharpness * sharpness * Dot(RowOf(keys, i), RowOf(keys, j));
    return memory.IsExact() ? std::exp(score) : 1 + score + score * score / 2;
  };
  int64_t right = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<double> out(static_cast<size_t>(options.dim)), scores;
    for (int64_t j = 0; j < count; ++j) {
      const double weight = kernel(i, j);
      const auto value = RowOf(pairs.values, j);
      for (size_t c = 0; c < out.size(); ++c) out[c] += weight * value[c];
    }
    for (int64_t row = 0; row < kCodebookRows; ++row)
      scores.push_back(Dot(out, RowOf(pairs.codebook, row)));
    const auto answer = std::ranges::max_element(scores) - scores.begin();
    right += answer == pairs.rows[static_cast<size_t>(i)] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

// Draws 2 and 3 choose β; draws 0 and 1 give the mean and half of their difference, its error.
TEST(MeasureRecall, IsTheMeanOverDrawsWithTheBestSharpnessOfOthers) {
  const RecallOptions options{
      .dim = 12, .pairs = {9, 30}, .sharpnesses = {0.5, 1.5, 3}, .draws = 2};
  const Context context({.threads = 2, .seed = kSeed});
  bool errors = false, ties = false;
  for (const Memory& memory :
       {Memory{}, Memory{.map = "positive", .features = 24}, Memory{.map = "relu", .features = 24},
        Memory{.map = "elu", .features = 24}, Memory{.map = "taylor", .feature_dim = 5}}) {
    const auto points = MeasureRecall(memory, options, context);
    ASSERT_EQ(points.size(), 2u);
    for (size_t place = 0; place < 2; ++place) {
      const int64_t count = options.pairs[place];
      const auto share = [&](double sharpness, uint64_t draw) {
        return ShareByHand(memory, options, count, sharpness, draw);
      };
      std::vector<double> equal;
      double most = -1;
      for (const double sharpness : options.sharpnesses) {
        const double sum = share(sharpness, 2) + share(sharpness, 3);
        if (sum > most + 1e-9) equal.clear();
        if (sum > most - 1e-9) equal.push_back(sharpness);
        most = std::max(most, sum);
      }
      const double best = equal[equal.size() / 2];
      const double first = share(best, 0), second = share(best, 1);
      const std::string label = fmt::format("{} {}", memory.map, count);
      EXPECT_EQ(points[place].pairs, count) << label;
      EXPECT_EQ(points[place].sharpness, best) << label;
      EXPECT_NEAR(points[place].accuracy, (first + second) / 2, 1e-12) << label;
      EXPECT_NEAR(points[place].standard_error, std::fabs(first - second) / 2, 1e-12) << label;
      errors |= first != second;
      ties |= equal.size() > 1;
    }
  }
  EXPECT_TRUE(errors && ties);
}

TEST(MeasureRecall, OnePairIsAlwaysRightAndExactAttentionToo) {
  const RecallOptions one{.dim = 16, .pairs = {1}, .sharpnesses = {1}, .draws = 20};
  const Context context({.seed = kSeed});
  for (const Memory& memory :
       {Memory{}, Memory{.map = "positive", .features = 1}, Memory{.map = "relu", .features = 1},
        Memory{.map = "elu", .features = 1}, Memory{.map = "taylor", .feature_dim = 1}}) {
    const RecallPoint point = MeasureRecall(memory, one, context)[0];
    EXPECT_EQ(point.accuracy, 1) << memory.map;
    EXPECT_EQ(point.standard_error, 0) << memory.map;
  }
  const RecallOptions many{.dim = 64, .pairs = {8, 512}, .sharpnesses = {1, 4}, .draws = 2};
  for (const RecallPoint& point : MeasureRecall({}, many, context)) EXPECT_EQ(point.accuracy, 1);
}

TEST(MeasureRecall, GrowsWithFeaturesAndFailsWithFew) {
  const RecallOptions options{.dim = 32, .pairs = {64}, .sharpnesses = {1, 2}, .draws = 8};
  const Context context({.seed = kSeed});
  RecallPoint before = MeasureRecall({.map = "positive", .features = 4}, options, context)[0];
  EXPECT_LT(before.accuracy, 0.25);
  for (const int64_t features : {32, 256}) {
    const RecallPoint point =
        MeasureRecall({.map = "positive", .features = features}, options, context)[0];
    EXPECT_GT(point.accuracy,
              before.accuracy + 4 * std::hypot(point.standard_error, before.standard_error));
    before = point;
  }
}

// The tables of the experiment, from the figures of results.json alone.
TEST(Memory, TablesSayWhatResultsSay) {
  const Context context({.seed = 1});
  reports::Report report("memory", "");
  Json results;
  ExperimentRun run{
      .context = context,
      .draws = 3,
      .quiet = true,
      .report = report,
      .results = results,
      .options = {
          {"pairs", {3, 12, 60}}, {"features", {2, 64}}, {"feature-dims", {3, 20}}, {"dim", {24}}}};
  FindExperiment("memory").run(run);
  EXPECT_FALSE(report.plots_missing());
  ASSERT_EQ(report.tables().size(), 3u);
  const auto &accuracies = report.tables()[0].rows, &smallest = report.tables()[1].rows,
             &sharpnesses = report.tables()[2].rows;
  const std::vector<std::string> names = {"exact", "positive",       "positive",
                                          "relu",  "relu",           "elu",
                                          "elu",   "taylor, 3 dims", "taylor, 20 dims"};
  const std::vector<int64_t> widths = {0, 2, 64, 2, 64, 2, 64, 1 + 3 + 6, 1 + 20 + 210};
  ASSERT_EQ(accuracies.size(), names.size());
  ASSERT_EQ(sharpnesses.size(), names.size());
  ASSERT_EQ(results["recall"].size(), names.size() * 3);
  std::vector<size_t> held;  // how many of the numbers of pairs
  for (size_t i = 0; i < names.size(); ++i) {
    const int64_t width = widths[i];
    EXPECT_EQ(accuracies[i][0], names[i]);
    EXPECT_EQ(accuracies[i][1], width > 0 ? std::to_string(width) : "—");
    EXPECT_EQ(accuracies[i][2], width > 0 ? std::to_string(width * (24 + 2) * 8) : "192 per pair");
    EXPECT_EQ(accuracies[i][3], width > 0 ? std::to_string(width * (24 + 1) * 4) : "192 per pair");
    held.push_back(0);
    for (size_t place = 0; place < 3; ++place) {
      const Json& point = results["recall"][i * 3 + place];
      EXPECT_EQ(point["attention"], names[i].substr(0, names[i].find(',')));
      EXPECT_EQ(point["features"], width > 0 ? Json(width) : Json());
      const int64_t pairs = point["pairs"].get<int64_t>();
      EXPECT_EQ(point["state_bytes"], width > 0 ? width * 26 * 8 : pairs * 192);
      EXPECT_EQ(point["f32_bytes"], width > 0 ? width * 25 * 4 : pairs * 192);
      const double accuracy = point["accuracy"].get<double>();
      EXPECT_EQ(accuracies[i][5 + place], fmt::format("{:.1f} ± {:.1f}", 100 * accuracy,
                                                      100 * point["standard_error"].get<double>()));
      EXPECT_EQ(sharpnesses[i][2 + place], fmt::format("{}", point["sharpness"].get<double>()));
      if (held.back() == place && accuracy >= 0.9) ++held.back();
    }
    const std::string cells[] = {"< 3", "3", "12", "≥ 60"};
    EXPECT_EQ(accuracies[i][4], cells[held.back()]);
  }
  for (const size_t some : {0u, 1u, 2u, 3u}) EXPECT_GT(std::ranges::count(held, some), 0) << some;

  ASSERT_EQ(smallest.size(), 5u);
  EXPECT_EQ(smallest[0], (std::vector<std::string>{"exact", "576", "2304", "11520"}));
  for (size_t kind = 1; kind < 5; ++kind) {
    const size_t small = 2 * kind - 1, large = 2 * kind;
    for (size_t place = 0; place < 3; ++place) {
      std::string cell = "—";
      for (const size_t row : {large, small})
        if (held[row] > place) cell = fmt::format("{} ({})", widths[row] * 26 * 8, widths[row]);
      EXPECT_EQ(smallest[kind][1 + place], cell);
    }
  }
}

}  // namespace
}  // namespace favor::experiments
