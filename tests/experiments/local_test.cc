// The experiment on local attention: its figures by hand, and that it finds what is wrong in print.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/experiments/ran.h"

namespace favor::experiments {
namespace {

TEST(LocalStudy, FindsThePrintedWeightsWrong) {
  const Ran ran("local", Scale::kQuick, 400);
  // Of an independent program: Z = 1.383, and 0.195 with the weights of the notes.
  EXPECT_NEAR(Number(ran.results["weights"], "z"), 1.383, 0.001);
  EXPECT_NEAR(Number(ran.results["weights"], "printed"), 0.195, 0.001);
  EXPECT_NEAR(Number(ran.results["weights"], "ours"), 1, 1e-6);
  EXPECT_EQ(ran.ClaimOf("weights Z·sign k̂").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("weights |k̂|, as printed").verdict, Verdict::kFails);
  EXPECT_EQ(ran.ClaimOf("the sharp indicator").verdict, Verdict::kFails);
  EXPECT_NEAR(Number(ran.results["sharp"], "slope"), 4 / (std::numbers::pi * std::numbers::pi),
              0.002);
  EXPECT_EQ(ran.ClaimOf("1/√m in both maps, as printed").verdict, Verdict::kFails);
  EXPECT_EQ(ran.ClaimOf("local-gaussian").verdict, Verdict::kHolds);
  EXPECT_NEAR(Number(ran.results["divisions"], "twice") * 16,
              Number(ran.results["divisions"], "once"), 1e-12);
  for (const Json& row : ran.results["masks"]) {
    const bool eight = row["dim"] == 8;
    if (row["map"] == "local-laplace" && eight) {
      // Of an independent program: .34 and .19.
      EXPECT_NEAR(Number(row, "error"), row["features"] == 64 ? 0.34 : 0.19, 0.15);
    } else if (row["map"] == "local-ball" && eight) {
      EXPECT_GT(Number(row, "nonpositive"), 0.02);
    } else if (row["map"] == "local-gaussian") {
      EXPECT_EQ(Number(row, "nonpositive"), 0);
      if (eight) {
        EXPECT_NEAR(Number(row, "error"), row["features"] == 64 ? 0.29 : 0.19, 0.06);
      }
    }
  }
  const Json& places = ran.results["places"];
  for (const Json& row : places) EXPECT_NEAR(Number(row, "z"), 2.4065, 1e-4);
  EXPECT_EQ(places[0]["features"], 64);
  EXPECT_EQ(places[3]["features"], 4096);
  EXPECT_LT(Number(places[3], "error"), Number(places[0], "error") / 4);
}

}  // namespace
}  // namespace favor::experiments
