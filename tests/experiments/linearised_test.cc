// The experiments on linearised layers: their figures by hand or by an independent program, and
// their verdicts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "experiments/published_columns.h"
#include "tests/experiments/ran.h"

namespace favor::experiments {
namespace {

double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }

// Figures of an independent program with sampled directions: a line, 256, 1024 and 4096 columns,
// exact squares.
TEST(LinearisedExperiment, HasTheErrorsOfAnIndependentProgram) {
  const Ran ran("linearised", Scale::kQuick, 16);
  const std::map<std::pair<int, int>, std::array<double, 5>> references = {
      {{16, 4}, {.51, .43, .23, .15, .105}}, {{64, 8}, {.53, .53, .53, .40, .124}}};
  size_t found = 0;
  for (const Json& row : ran.results["widths"]) {
    const auto at = references.find({row["dim"].get<int>(), row["reach"].get<int>()});
    if (at == references.end()) continue;
    ++found;
    const auto& [line, first, second, third, exact] = at->second;
    EXPECT_NEAR(Number(row, "line"), line, 0.015);
    EXPECT_NEAR(Number(row, "exact"), exact, 0.01);
    const double sketched[] = {first, second, third};
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(Number(row["sketched"][i], "error"), sketched[i], 0.02) << row;
  }
  EXPECT_EQ(found, references.size());
}

// A line and exact squares from their own sums, d = 16 and R = 4: moments of a coordinate of a unit
// vector by Simpson's rule over its angle.
TEST(LinearisedExperiment, HasTheErrorsOfALineByHand) {
  const Ran ran("linearised", Scale::kQuick, 16);
  constexpr int kSteps = 20000;
  const auto mean = [&](const auto& of) {
    double sum = 0, total = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double angle = std::numbers::pi * (static_cast<double>(i) / kSteps - 0.5);
      const double weight = (i == 0 || i == kSteps ? 1
                             : i % 2 == 1          ? 4
                                                   : 2) *
                            std::pow(std::cos(angle), 14);
      sum += weight * of(4 * std::sin(angle));
      total += weight;
    }
    return sum / total;
  };
  const double f = mean(Gelu), t2 = mean([](double t) { return t * t; }),
               variance = mean([&](double t) { return std::pow(Gelu(t) - f, 2); });
  const double line = mean([&](double t) { return std::pow(Gelu(t) - f - t / 2, 2); });
  // The even part, GELU − t/2, is regressed on t².
  const double t4 = mean([](double t) { return t * t * t * t; }),
               ft2 = mean([](double t) { return Gelu(t) * t * t; });
  const double slope = (ft2 - f * t2) / (t4 - t2 * t2);
  const double square =
      mean([&](double t) { return std::pow(Gelu(t) - t / 2 - f - slope * (t * t - t2), 2); });
  for (const Json& row : ran.results["widths"]) {
    if (row["dim"] != 16 || row["reach"] != 4) continue;
    EXPECT_NEAR(Number(row, "line"), std::sqrt(line / variance), 2e-3);
    EXPECT_NEAR(Number(row, "exact"), std::sqrt(square / variance), 2e-3);
    EXPECT_EQ(ran.Table("Error of GELU units").rows[2][2],
              fmt::format("{:.3f}", Number(row, "line")));
  }
}

TEST(LinearisedExperiment, TellsWhichColumnsReachTheirTarget) {
  const Ran ran("linearised", Scale::kFull, 400);
  EXPECT_EQ(ran.ClaimOf("columns for a target error").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("Algorithm 1 of the notes, as printed").verdict, Verdict::kFails);
  EXPECT_EQ(ran.ClaimOf("the linearised layer", "better than a straight line").verdict,
            Verdict::kFails);
  EXPECT_EQ(ran.ClaimOf("the linearised layer", "do not pay").verdict, Verdict::kHolds);
  EXPECT_NE(ran.ClaimOf("the error of linearised units").verdict, Verdict::kFails);
  // By an independent program; at R = 2 a single column of degree 8 has 6.03 of it, in rare draws.
  const double printed[] = {0.1396, 0.1301, 7.1334};
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(Number(ran.results["targets"][i], "printed_exact_error"), printed[i], 1e-4);
  for (const Json& row : ran.results["targets"]) {
    EXPECT_LE(Number(row, "exact_error"), Number(row, "target")) << row;
    EXPECT_GT(Number(row, "printed_exact_error"), Number(row, "target")) << row;
  }
}

// 8 units, R = 2, ε = 0.1: n = ⌈√8·16·0.798/(8√0.1)⌉ = 15; t² on [−1, 1] has Bernstein's polynomial
// u² + (1 − u²)/n, so that m_2 = ⌈n·units·(1 − 1/n)²/ε⌉.
TEST(PublishedAlgorithm, ByHand) {
  EXPECT_EQ(
      PublishedAlgorithm(
          Gelu,
          {.interval = {-2, 2}, .units = 8, .error = 0.1, .largest_second_derivative = 0.797885})
          .polynomial.degree(),
      15);
  const PublishedColumns square = PublishedAlgorithm(
      [](double t) { return t * t; },
      {.interval = {-1, 1}, .units = 2, .error = 0.5, .largest_second_derivative = 2});
  EXPECT_EQ(square.polynomial.degree(), 2);
  EXPECT_EQ(square.columns[0], 0);
  EXPECT_EQ(square.columns[2], 2);  // 2·2·(1/2)²/0.5
}

// Deviations that an independent program found.
TEST(TaylorSeries, HasTheDeviationsOfAnIndependentProgram) {
  const Ran ran("taylor-series", Scale::kQuick, 300);
  const std::map<double, std::array<double, 2>> optimal = {
      {1, {.50, .01}}, {2, {4.36, .01}}, {3, {43.76, .01}}};
  for (const Json& row : ran.results["deviations"]) {
    const double t = Number(row, "t");
    if (const auto at = optimal.find(t); at != optimal.end()) {
      EXPECT_NEAR(Number(row, "optimal"), at->second[0], at->second[1]) << row;
      EXPECT_GT(Number(row, "geometric"), Number(row, "optimal"));
      EXPECT_GT(Number(row, "poisson"), Number(row, "optimal"));
    }
    if (t != 2) continue;
    EXPECT_NEAR(Number(row, "six_draws"), 1.78, 0.005);
    EXPECT_NEAR(Number(row, "roulette"), 0.59, 0.005);
    EXPECT_NEAR(Number(row, "head_and_tail"), 0.147, 0.0005);
    EXPECT_NEAR(Number(row, "six_terms"), 0.030, 0.0005);
    EXPECT_NEAR(Number(row, "polynomial"), 0.0017, 0.00005);
  }
}

TEST(TaylorSeries, HasItsVerdicts) {
  const Ran ran("taylor-series", Scale::kFull, 20000);
  for (const char* of : {"powers of t", "powers from sketches"}) {
    EXPECT_EQ(ran.ClaimOf("the Taylor composition", of).verdict, Verdict::kHolds) << of;
    EXPECT_EQ(ran.ClaimOf("the second moment, exactly", of).verdict, Verdict::kHolds) << of;
  }
  EXPECT_EQ(ran.ClaimOf("the Taylor composition", "a polynomial").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("the geometric law").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("the geometric law, as printed").verdict, Verdict::kFails);
}

}  // namespace
}  // namespace favor::experiments
