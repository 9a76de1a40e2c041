#include "experiments/experiment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "experiments/estimate.h"

namespace favor::experiments {
namespace {

// Tables for people say what results.json says: first the lengths of bidirectional attention, then
// those of causal attention.
void ExpectTablesOfLengths(const std::vector<reports::Table>& tables, const Json& results) {
  ASSERT_GE(tables.size(), 2u);
  std::vector<std::vector<std::string>> rows = tables[0].rows;
  rows.insert(rows.end(), tables[1].rows.begin(), tables[1].rows.end());
  ASSERT_EQ(rows.size(), results["lengths"].size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& row = results["lengths"][i];
    const auto number = [&](const char* key) { return row[key].get<double>(); };
    const double exact = number("exact_seconds"), linear = number("linear_seconds");
    EXPECT_EQ(rows[i][0], std::to_string(row["length"].get<int64_t>()));
    EXPECT_EQ(rows[i][1], fmt::format("{:.2f}", 1000 * exact));
    EXPECT_EQ(rows[i][2], fmt::format("{:.2f}", 1000 * linear));
    EXPECT_EQ(rows[i][3], fmt::format("{:.2f}", exact / linear));
    EXPECT_EQ(rows[i][6], fmt::format("{:.3f}", number("linear_error")));
    EXPECT_EQ(rows[i][7], fmt::format("{:.3f}", number("uniform_error")));
  }
}

// |z| is the distance of the mean from K in standard errors.
void ExpectTableOfEstimators(const reports::Table& table, const Json& results) {
  ASSERT_EQ(table.rows.size(), results["estimators"].size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const Json& row = results["estimators"][i];
    const double mean = row["mean"].get<double>(), kernel = row["kernel"].get<double>();
    EXPECT_EQ(table.rows[i][0], row["map"]);
    EXPECT_EQ(table.rows[i][1], row["projection"]);
    EXPECT_EQ(table.rows[i][3], fmt::format("{:.4f}", kernel));
    EXPECT_EQ(table.rows[i][4], fmt::format("{:.4f}", mean));
    EXPECT_EQ(table.rows[i][5], fmt::format("{:.1f}", std::fabs(mean - kernel) /
                                                          row["standard_error"].get<double>()));
    EXPECT_EQ(table.rows[i][7], fmt::format("{:.4f}", row["measured_error"].get<double>()));
  }
}

// Two draws by hand: their mean, and half of the square of their difference.
TEST(MeasureEstimator, IsTheMeanAndTheVarianceOfItsDraws) {
  const Context context({.threads = 1, .seed = 3});
  const auto [x, y] = GenericPair(4, 0.7, 1, 5);
  Tensor pair({2, 4}, DataType::kF64);
  std::ranges::copy(x, pair.Data<double>());
  std::ranges::copy(y, pair.Data<double>() + 4);
  std::vector<double> drawn;
  for (uint64_t redraw = 0; redraw < 2; ++redraw) {
    const auto plan = FeaturePlan::Draw({.features = 6}, 1, 4, 3, redraw);
    const Tensor phi = Features(plan, pair, context);
    double dot = 0;
    for (int64_t r = 0; r < 6; ++r) dot += phi.Data<double>()[r] * phi.Data<double>()[6 + r];
    drawn.push_back(dot);
  }
  const Estimate estimate = MeasureEstimator({.features = 6}, x, y, 2, context);
  const double variance = std::pow(drawn[0] - drawn[1], 2) / 2;
  EXPECT_NEAR(estimate.mean, (drawn[0] + drawn[1]) / 2, 1e-12);
  EXPECT_NEAR(estimate.variance, variance, 1e-12);
  EXPECT_NEAR(estimate.standard_error, std::sqrt(variance / 2), 1e-12);
  EXPECT_GT(variance, 1e-6);
}

TEST(Experiments, EveryOneRunsAndReports) {
  for (const Experiment& experiment : AllExperiments()) {
    const Context context({.seed = 1});
    reports::Report report(std::string(experiment.name), "");
    Json results;
    ExperimentRun run{.context = context,
                      .draws = 2,
                      .quiet = true,
                      .report = report,
                      .results = results,
                      .options = experiment.StandardValues()};
    experiment.run(run);
    EXPECT_FALSE(report.tables().empty());
    EXPECT_FALSE(results.empty());
    EXPECT_FALSE(report.plots_missing());
    if (experiment.name == "attention") ExpectTablesOfLengths(report.tables(), results);
    if (experiment.name == "estimators") ExpectTableOfEstimators(report.tables()[0], results);
  }
}

// The experiment finds what the formulas predict: a wrong map or formula shows here as it would to
// a reader.
TEST(Estimators, AgreeWithTheFormulas) {
  const Context context({.seed = 1});
  reports::Report report("estimators", "");
  Json results;
  ExperimentRun run{
      .context = context, .draws = 400, .quiet = true, .report = report, .results = results};
  FindExperiment("estimators").run(run);
  for (const auto& row : results["estimators"]) {
    const std::string label =
        row["map"].get<std::string>() + " " + row["projection"].get<std::string>();
    ASSERT_FALSE(row["kernel"].is_null()) << label;
    EXPECT_NEAR(row["mean"].get<double>(), row["kernel"].get<double>(),
                4.5 * row["standard_error"].get<double>())
        << label;
    if (!row["predicted_error"].is_null()) {
      EXPECT_NEAR(row["measured_error"].get<double>() / row["predicted_error"].get<double>(), 1,
                  0.35)
          << label;
    }
  }
}

}  // namespace
}  // namespace favor::experiments
