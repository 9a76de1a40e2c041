#include "lab/report.h"

#include <gtest/gtest.h>

#include "lab/experiment.h"

namespace favor::lab {
namespace {

TEST(Table, AlignsByWhatIsSeen) {
  const Table table{
      .title = "t", .caption = "", .columns = {"näme", "n"}, .rows = {{"a", "1.5"}, {"ωω", "22"}}};
  EXPECT_EQ(table.ToText(), "t\n  näme    n\n  a     1.5\n  ωω     22\n");
}

TEST(Table, AColumnStandsOnOneSide) {
  const Table table{
      .title = "t",
      .caption = "",
      .columns = {"name", "n", "share"},
      .rows = {{"2-gram", "none", "5 %"}, {"3-gram", "1", "+12.5 %"}, {"7", "22", "—"}}};
  EXPECT_EQ(table.ToText(),
            "t\n  name       n    share\n  2-gram  none      5 %\n  3-gram     1  +12.5 %\n"
            "  7         22        —\n");
}

TEST(Table, EscapesHtml) {
  const Table table{.title = "<t>", .caption = "a & b", .columns = {"x"}, .rows = {{"<script>"}}};
  const std::string html = table.ToHtml();
  EXPECT_EQ(html.find("<script>"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(html.find("a &amp; b"), std::string::npos);
}

TEST(Plot, DrawsEverySeries) {
  const Plot plot{.title = "error \"of\" x_1",
                  .caption = "",
                  .x_label = "m",
                  .y_label = "e",
                  .log_x = true,
                  .log_y = true,
                  .series = {{.name = "one", .points = {{1, 1}, {2, 0.5}, {4, 1e-300 * 0}}},
                             {.name = "two", .points = {{1, 3}}, .color = 1, .markers = true}}};
  const auto svg = RenderSvg(plot);
  ASSERT_TRUE(svg.has_value()) << "gnuplot is installed by make deps";
  EXPECT_EQ(svg->rfind("<svg", 0), 0u);
  EXPECT_NE(svg->find("one"), std::string::npos);
  EXPECT_NE(svg->find("error \"of\" x_1"), std::string::npos);
}

TEST(Report, IsSelfContained) {
  Report report("title", "favor lab x");
  report.AddText("a < b");
  report.AddPlot({.title = "p",
                  .caption = "c",
                  .x_label = "x",
                  .y_label = "y",
                  .series = {{.name = "s", .points = {{1, 1}, {2, 2}}}}});
  const std::string html = report.ToHtml();
  for (const char* foreign : {"<script", "<link", "src=", "@import", "url(http"}) {
    EXPECT_EQ(html.find(foreign), std::string::npos) << foreign;
  }
  EXPECT_NE(html.find("a &lt; b"), std::string::npos);
  EXPECT_NE(html.find("favor lab x"), std::string::npos);
}

TEST(Experiments, EveryOneRunsAndReports) {
  for (const Experiment& experiment : AllExperiments()) {
    const Context context({.seed = 1});
    Report report(std::string(experiment.name), "");
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
  Report report("estimators", "");
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
}  // namespace favor::lab
