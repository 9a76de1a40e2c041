// Runs an experiment of the lab for a test.
#ifndef FAVOR_TESTS_EXPERIMENTS_RAN_H_
#define FAVOR_TESTS_EXPERIMENTS_RAN_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "experiments/experiment.h"

namespace favor::experiments {

struct RanOptions {
  GivenPoint point = {};
  int threads = 0;  // 0: all
};

// A run of an experiment, with all that it leaves behind.
struct Ran {
  Ran(std::string_view name, Scale scale, int64_t draws, const RanOptions& options = {})
      : context({.threads = options.threads, .seed = 1}), report(std::string(name), "") {
    const Experiment& experiment = FindExperiment(name);
    ExperimentRun run{.context = context,
                      .scale = scale,
                      .draws = draws,
                      .quiet = true,
                      .report = report,
                      .results = results,
                      .options = experiment.StandardValues(),
                      .point = options.point};
    experiment.run(run);
    claims = run.claims;
  }

  const reports::Table& Table(std::string_view title) const {
    for (const reports::Table& table : report.tables())
      if (table.title == title) return table;
    ADD_FAILURE() << title;
    return report.tables().front();
  }
  const Claim& ClaimOf(std::string_view source, std::string_view part = "") const {
    for (const Claim& claim : claims)
      if (claim.source == source && claim.statement.find(part) != std::string::npos) return claim;
    ADD_FAILURE() << source;
    return claims.front();
  }

  Context context;
  reports::Report report;
  Json results;
  std::vector<Claim> claims;
};

inline double Number(const Json& row, const char* key) { return row.at(key).get<double>(); }

}  // namespace favor::experiments

#endif  // FAVOR_TESTS_EXPERIMENTS_RAN_H_
