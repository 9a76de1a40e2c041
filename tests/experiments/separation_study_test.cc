// The separation experiments as a user runs them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "experiments/separation.h"
#include "favor/error.h"
#include "tests/experiments/ran.h"

namespace favor::experiments {
namespace {

// The lesson of each case names the contestant that reaches softmax's success, within 0.1, with the
// fewest features, and counts those that never do.
void ExpectLessons(const Ran& ran) {
  for (const auto& of_case : ran.results["softmax"]) {
    const double line = Number(of_case, "success") - 0.1;
    std::map<std::string, int64_t> fewest;  // 0: never
    std::pair<int64_t, std::string> best = {1 << 20, ""};
    for (const auto& row : ran.results["features"]) {
      if (row["case"] != of_case["case"]) continue;
      int64_t& features = fewest[row["kind"]];
      if (features != 0 || Number(row, "success") < line) continue;
      features = row["features"];
      if (features < best.first) best = {features, row["kind"]};
    }
    const auto never =
        std::ranges::count_if(fewest, [](const auto& one) { return one.second == 0; });
    const std::string& body = ran.report.body();
    EXPECT_NE(body.find(fmt::format("{} kinds of random features never do", never)),
              std::string::npos)
        << of_case;
    const std::string expected =
        best.second.empty()
            ? "No random features here come within 0.1 of softmax"
            : fmt::format("within 0.1 of softmax: {} of {}, for", best.first, best.second);
    EXPECT_NE(body.find(expected), std::string::npos) << expected;
  }
}

// Success ratios of FAVOR+ in the experiments of Superiority of Softmax, 100 trials each, by an
// independent program: 16, 64 and 256 features.
TEST(SeparationFeatures, RatiosOfAnIndependentProgram) {
  const Ran ran("separation-features", Scale::kQuick, 100);
  const std::map<std::pair<std::string, std::string>, std::array<double, 3>> references = {
      {{"self-attention, X = I", "positive"}, {.08, .20, .21}},
      {{"self-attention, X = I", "positive, centred keys"}, {.17, .29, .57}},
      {{"self-attention, X = I", "oprf"}, {.30, .33, .66}},
      {{"self-attention, X = I", "oprf, centred keys"}, {.28, .44, .68}},
      {{"self-attention, X of ones", "positive"}, {.03, .02, .01}},
      {{"self-attention, X of ones", "positive, centred keys"}, {.12, .47, .79}},
      {{"self-attention, X of ones", "oprf"}, {.85, .95, .93}},
      {{"cross-attention", "positive"}, {.03, .01, .01}},
      {{"cross-attention", "oprf, q/4, 4k, centred keys"}, {.09, .23, .30}},
      {{"cross-attention", "oprf, q/4, 4k, q in the span of the centred keys"}, {.40, .50, .66}}};
  size_t found = 0;
  for (const auto& row : ran.results["features"]) {
    const auto at = references.find({row["case"], row["kind"]});
    if (at == references.end()) continue;
    ++found;
    const int64_t features = row["features"];
    const double reference = at->second[features == 16   ? 0
                                        : features == 64 ? 1
                                                         : 2],
                 ratio = Number(row, "success"),
                 pooled = std::clamp((ratio + reference) / 2, 0.01, 0.99);
    EXPECT_NEAR(ratio, reference, 4.5 * std::sqrt(2 * pooled * (1 - pooled) / 100)) << row;
  }
  EXPECT_EQ(found, 3 * references.size());
  ExpectLessons(ran);
  const double softmax[] = {.84, .90, .94};
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(Number(ran.results["softmax"][i], "success"), softmax[i], 0.04);
}

// The sweeps of the paper, point by point: which they are, what each varies, and what is outside of
// the definitions.
TEST(SeparationSelf, SweepsWhatThePaperSweeps) {
  for (const char* name : {"separation-self", "separation-self-ones"}) {
    const Ran ran(name, Scale::kFull, 200);
    const Json& sweeps = ran.results["sweeps"];
    const std::map<std::string, size_t> sizes = {{"n", 81},  {"d", 6},   {"m", 80},
                                                 {"a1", 81}, {"a0", 80}, {"c", 81}};
    ASSERT_EQ(sweeps.size(), sizes.size());
    for (const auto& [parameter, size] : sizes) EXPECT_EQ(sweeps[parameter].size(), size);
    const auto success = [&](const char* parameter, size_t place) {
      return Number(sweeps[parameter][place], "success");
    };
    EXPECT_NEAR(success("d", 0), 0.13, 0.1);
    EXPECT_NEAR(success("d", 5), 0.99, 0.05);
    EXPECT_NEAR(success("m", 0), 0.25, 0.14);
    EXPECT_EQ(success("a1", 0), 0);
    const bool ones = std::string_view(name) == "separation-self-ones";
    EXPECT_NEAR(success("n", 20), ones ? 0.646 : 0.625, 0.15);
    EXPECT_NEAR(success("a0", 79), ones ? 0 : 0.054, 0.08);
    EXPECT_NEAR(success("c", 0), ones ? 0.908 : 0.615, 0.15);
    // Outside: a0 from 0.1 on, a1 below 1, c other than 1 − b = 0.8.
    for (const auto& [parameter, points] : sweeps.items()) {
      for (const Json& point : points) {
        const double value = Number(point, "value");
        const bool outside = parameter == "a0"   ? value > 0.095
                             : parameter == "a1" ? value < 0.999
                             : parameter == "c"  ? std::fabs(value - 0.8) > 1e-6
                                                 : false;
        EXPECT_EQ(point["outside"], outside) << parameter << " " << value;
      }
    }
    EXPECT_EQ(ran.Table("Success against a0").rows[8][0], "0.09");
    EXPECT_EQ(ran.Table("Success against a0").rows[9][0], "0.1 *");
    const auto& by_m = ran.Table("Success against m");
    EXPECT_EQ(by_m.columns.back(), "softmax, D1, closed form");
    EXPECT_EQ(by_m.rows[1].back(), "0.438");  // 1 − (3/4)²
  }
}

TEST(SeparationCross, SweepsWhatThePaperSweeps) {
  const Ran ran("separation-cross", Scale::kFull, 200);
  const Json& sweeps = ran.results["sweeps"];
  const std::map<std::string, size_t> sizes = {
      {"n", 81}, {"d", 10}, {"m", 80}, {"a1", 81}, {"a0", 90}};
  ASSERT_EQ(sweeps.size(), sizes.size());
  for (const auto& [parameter, size] : sizes) EXPECT_EQ(sweeps[parameter].size(), size);
  double sum = 0;  // with fewer hidden units than ln(n/0.01) it would be about 0.85
  for (const Json& point : sweeps["n"]) sum += Number(point, "success") / 81;
  EXPECT_NEAR(sum, 0.946, 0.015);
  EXPECT_EQ(Number(sweeps["d"][0], "success"), 0);
  EXPECT_NEAR(Number(sweeps["d"][2], "success"), 0.487, 0.16);
  EXPECT_NEAR(Number(sweeps["a0"][89], "success"), 0.459, 0.16);
  EXPECT_EQ(sweeps["a0"][8]["outside"], false);
  EXPECT_EQ(sweeps["a0"][9]["outside"], true);
}

TEST(SeparationRegression, HasAsManyHiddenUnitsAsThePaper) {
  const Ran ran("separation-regression", Scale::kQuick, 20);
  const auto &by_n = ran.Table("Success against n"), &by_m = ran.Table("Success against m");
  EXPECT_EQ(by_n.rows[0][0], "100");
  EXPECT_EQ(by_n.rows[0].back(), "0.938");  // 4 units
  EXPECT_EQ(by_n.rows.back()[0], "1940");
  EXPECT_EQ(by_n.rows.back().back(), "0.992");  // 7 units
  EXPECT_EQ(by_m.rows[0].back(), "0.500");
}

// Attentions without random features, by an independent computation of the outputs: an attention of
// given weights fires as often as its outputs say.
TEST(SeparationFeatures, FixedAttentionsFireAsOftenAsTheirOutputsSay) {
  const Ran ran("separation-features", Scale::kQuick, 2);
  const TokenData one = SelfTokens({.a = 1.2}), zero = SelfTokens({.a = 0.01});
  const double threshold = 0.9 * std::sqrt(std::log(200.0));
  // Outputs of one special query and of the others, with weights that are a function of the logit.
  const auto outputs = [](const TokenData& data, double (*weight)(double)) {
    Rows out{.columns = 22, .values = {}};
    for (int64_t i = 0; i < data.queries.rows.size(); ++i) {
      std::vector<double> mean(22);
      double sum = 0;
      for (int64_t j = 0; j < data.keys.rows.size(); ++j) {
        double logit = 0;
        for (int64_t c = 0; c < 22; ++c) logit += data.queries.rows[i][c] * data.keys.rows[j][c];
        const double w =
            weight(logit) * static_cast<double>(data.keys.counts[static_cast<size_t>(j)]);
        sum += w;
        for (int64_t c = 0; c < 22; ++c) mean[static_cast<size_t>(c)] += w * data.keys.rows[j][c];
      }
      for (const double value : mean) out.values.push_back(value / sum);
    }
    return out;
  };
  const std::map<std::string, double (*)(double)> weights = {
      {"exact", [](double s) { return std::exp(s); }},
      {"uniform", [](double) { return 1.0; }},
      {"identity features: weights q·k", [](double s) { return s; }},
      {"taylor1: weights 1 + q·k", [](double s) { return 1 + s; }},
      {"taylor: weights 1 + q·k + (q·k)²/2", [](double s) { return 1 + s + s * s / 2; }},
      {"poly-exact: weights (q·k)^4", [](double s) { return s * s * s * s; }}};
  size_t found = 0;
  for (const auto& row : ran.results["fixed"]) {
    const auto at = weights.find(row["kind"]);
    if (at == weights.end() || row["case"] != "self-attention, X = I") continue;
    ++found;
    const Rows of_one = outputs(one, at->second), of_zero = outputs(zero, at->second);
    const RandomStream stream(99, "other signs");
    double hits = 0;
    for (uint64_t trial = 0; trial < 2000; ++trial) {
      const Rows signs = SignsOf(15, 22, stream.Child(trial));
      hits += Fires(of_one, signs, threshold) && !Fires(of_zero, signs, threshold) ? 1 : 0;
    }
    const double pooled = std::clamp((hits / 2000 + Number(row, "success")) / 2, 5e-4, 1 - 5e-4);
    EXPECT_NEAR(Number(row, "success"), hits / 2000,
                4.5 * std::sqrt(2 * pooled * (1 - pooled) / 2000))
        << row;
  }
  EXPECT_EQ(found, weights.size());
  EXPECT_EQ(ran.ClaimOf("self-attention, X = I: exact").verdict, Verdict::kHolds);
  EXPECT_EQ(ran.ClaimOf("self-attention, X = I: uniform").verdict, Verdict::kFails);
}

// Everything but times.
TEST(SeparationStudies, DoNotDependOnThreads) {
  const auto figures = [](const char* name, const GivenPoint& point, int threads) {
    const Ran ran(name, Scale::kQuick, 2, {.point = point, .threads = threads});
    Json results = ran.results;
    for (const char* list : {"features", "fixed"}) {
      if (!results.contains(list)) continue;
      for (Json& row : results[list]) row.erase("cost");
    }
    return results;
  };
  for (const char* name :
       {"separation-features", "separation-trained", "separation-cross", "separation-regression"})
    EXPECT_EQ(figures(name, {}, 1), figures(name, {}, 3)) << name;
  const GivenPoint point{.values = {{"n", 210}}, .allow = true};
  EXPECT_EQ(figures("separation-self", point, 1), figures("separation-self", point, 3));
}

// One point of the reference tables, 2000 trials each.
TEST(SeparationPoints, AreThoseOfAnIndependentProgram) {
  const auto expect = [](const char* name, const GivenPoint& point, double reference,
                         bool outside) {
    const Ran ran(name, Scale::kFull, 2000, {.point = point});
    const double success = Number(ran.results["measured"], "success"),
                 pooled = std::clamp((success + reference) / 2, 5e-4, 1 - 5e-4);
    EXPECT_NEAR(success, reference, 4.5 * std::sqrt(2 * pooled * (1 - pooled) / 2000) + 6e-4);
    EXPECT_EQ(ran.results["measured"]["outside"], outside) << name;
    EXPECT_TRUE(ran.claims.empty());
    ASSERT_EQ(ran.report.tables().size(), 1u);
    EXPECT_EQ(ran.report.tables()[0].rows[0][0].ends_with(" *"), outside);
  };
  expect("separation-self", {.values = {{"n", 400}, {"d", 12}}}, .625, false);
  expect("separation-self", {.values = {{"m", 40}}}, .496, false);
  expect("separation-self", {.values = {{"c", .9}, {"b", .1}}}, .989, false);
  expect("separation-self", {.values = {{"c", .6}}, .allow = true}, .720, true);
  expect("separation-self-ones", {.values = {{"a1", 3}}}, .465, false);
  expect("separation-self-ones", {.values = {{"a0", .4}}}, .651, true);
  expect("separation-cross", {.values = {{"n", 1000}}}, .955, false);  // m = 12
  expect("separation-cross", {.values = {{"d", 12}, {"a1", .9}}, .allow = true}, .622, true);
  expect("separation-regression", {.values = {{"n", 100}, {"tau", .25}}}, .859, false);
  expect("separation-regression", {.values = {{"m", 3}}}, .881, false);
}

TEST(SeparationPoints, ThatBreakARuleAreRefusedUnlessAllowed) {
  const auto expect = [](const char* name, const GivenPoint& point, const std::string& message) {
    try {
      const Ran ran(name, Scale::kQuick, 2, {.point = point});
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
    GivenPoint allowed = point;
    allowed.allow = true;
    EXPECT_EQ(Ran(name, Scale::kQuick, 2, {.point = allowed}).results["measured"]["outside"], true);
  };
  expect("separation-self", {.values = {{"n", 201}}},
         "given n = 201 and d = 22, expected n to be a multiple of d − 2; --allow");
  expect("separation-self-ones", {.values = {{"c", .7}}},
         "given b = 0.2 and c = 0.7, expected b + c = 1; --allow");
  expect("separation-cross", {.values = {{"d", 12}}},
         "given n = 200 and d = 12, expected n to be a multiple of d − 1; --allow");
}

}  // namespace
}  // namespace favor::experiments
