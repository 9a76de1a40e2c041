#include "experiments/experiment.h"

#include <gtest/gtest.h>

#include <string>

namespace favor::experiments {
namespace {

TEST(Experiments, EveryOneRunsAndReports) {
  for (const Experiment& experiment : AllExperiments()) {
    const Context context({.seed = 1});
    reports::Report report(std::string(experiment.name), "");
    Json results;
    ExperimentRun run{
        .context = context, .draws = 2, .quiet = true, .report = report, .results = results};
    experiment.run(run);
    EXPECT_FALSE(report.tables().empty());
    EXPECT_FALSE(results.empty());
    EXPECT_FALSE(report.plots_missing());
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
