// The experiment on polynomial kernels: its figures by hand, and that it finds what is wrong in
// print.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/experiments/ran.h"

namespace favor::experiments {
namespace {

const Json& Row(const Ran& ran, const char* map, const char* pair, int64_t degree) {
  for (const Json& row : ran.results["errors"])
    if (row["map"] == map && row["pair"] == pair && row["degree"] == degree) return row;
  ADD_FAILURE() << map << " " << pair;
  return ran.results["errors"][0];
}

// 16 elements, m = 32. Flat unit vectors: s = a = 1, S = 1/16; four elements of 1/2: S = 1/4.
TEST(Polynomials, HasTheErrorsThatAreFoundByHand) {
  const Ran ran("polynomials", Scale::kQuick, 4000);
  const auto number = [&](const char* map, const char* pair, int64_t degree, const char* key) {
    return Row(ran, map, pair, degree)[key].get<double>();
  };
  EXPECT_NEAR(number("poly-sum", "flat, x = y", 3, "exact"), 0, 1e-12);
  EXPECT_NEAR(number("poly-sum", "flat, x = y", 3, "printed"), 0, 1e-12);
  EXPECT_NEAR(number("poly-sum", "4 of 16 elements, x = y", 2, "exact"), (16.0 - 1) / 32, 1e-12);
  EXPECT_NEAR(number("poly-sketch", "flat, x = y", 2, "exact"),
              (2 * std::pow(2 + 1 - 0.125, 2) + 30 * 2 * std::pow(2 - 0.0625, 2) - 62) / 1024,
              1e-12);
  EXPECT_NEAR(number("poly-sketch", "flat, x = y", 2, "printed"), 2.0 / 32, 1e-12);
  EXPECT_NEAR(number("poly-sum", "generic, 57°", 2, "kernel"), std::pow(std::cos(1.0), 2), 1e-12);
  // Printed with s^k instead of s^{2k}: off by (s^{2k} − s^k)/m.
  const double s = std::cos(1.0);
  EXPECT_NEAR(
      number("poly-sum", "generic, 57°", 3, "printed"),
      number("poly-sum", "generic, 57°", 3, "exact") + (std::pow(s, 6) - std::pow(s, 3)) / 32,
      1e-12);
  EXPECT_EQ(ran.ClaimOf("both maps").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("the error of poly-sketch").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("the bound for poly-sketch, as printed").verdict, Verdict::kFails);
  EXPECT_EQ(ran.ClaimOf("a bound for poly-sketch").verdict, Verdict::kHolds);
  EXPECT_NE(ran.ClaimOf("the error of poly-sum").verdict, Verdict::kFails);
  EXPECT_EQ(ran.ClaimOf("a shared rotation").verdict, Verdict::kHolds);
  // Monomials of degree 3 in 16 and in 64 elements.
  const reports::Table& table = ran.Table("Columns that an error takes");
  EXPECT_EQ(table.rows[1][3], "816");
  EXPECT_EQ(table.rows[1][4], "45760");
  // Every second row of s³ has a denominator that is not positive, none of 1 + s + s²/2.
  for (const Json& row : ran.results["attention"]) {
    const double share = row["exact_nonpositive"].get<double>();
    if (row["kernel"] == "s³") {
      EXPECT_NEAR(share, 0.5, 0.15);
    } else {
      EXPECT_EQ(share, 0) << row["kernel"];
    }
  }
}

}  // namespace
}  // namespace favor::experiments
