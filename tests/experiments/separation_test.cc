#include "experiments/separation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "experiments/separation_sweep.h"
#include "favor/error.h"

namespace favor::experiments {
namespace {

// All n tokens, one by one, as the paper writes them down.
std::vector<std::vector<double>> PlainSelf(int64_t n, int64_t d, double a, double b, double c) {
  const double root = std::sqrt(std::log(static_cast<double>(n)));
  std::vector<std::vector<double>> rows(static_cast<size_t>(n),
                                        std::vector<double>(static_cast<size_t>(d)));
  for (int64_t j = 0; j < n; ++j) {
    auto& row = rows[static_cast<size_t>(j)];
    if (j == 0) row[0] = a * root;
    row[static_cast<size_t>(1 + j % (d - 2))] = b * root;
    row[static_cast<size_t>(d - 1)] = c * root;
  }
  return rows;
}

std::vector<double> PlainOutput(const std::vector<double>& query,
                                const std::vector<std::vector<double>>& keys, bool ones,
                                bool softmax) {
  std::vector<double> out(keys[0].size());
  double sum = 0;
  for (const auto& key : keys) {
    double dot = 0, of_query = 0, of_key = 0;
    for (size_t i = 0; i < key.size(); ++i) {
      dot += query[i] * key[i];
      of_query += query[i];
      of_key += key[i];
    }
    const double logit = ones ? of_query * of_key : dot, weight = softmax ? std::exp(logit) : logit;
    sum += weight;
    for (size_t i = 0; i < key.size(); ++i) out[i] += weight * key[i];
  }
  for (double& value : out) value /= sum;
  return out;
}

void ExpectRow(const double* row, const std::vector<double>& plain) {
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(row[i], plain[i], 1e-12) << i;
}

// Kinds of tokens with their counts give what all tokens give.
TEST(Separation, SelfAttentionOfKindsIsThatOfAllTokens) {
  const auto plain = PlainSelf(24, 8, 1.2, 0.2, 0.8);  // six groups of four
  const TokenData data = SelfTokens({.tokens = 24, .dim = 8, .a = 1.2});
  ASSERT_EQ(data.queries.rows.size(), 7);
  for (const bool ones : {false, true}) {
    for (const bool softmax : {false, true}) {
      const Rows outputs = OutputsOf(data, ones ? Between::kOnes : Between::kIdentity,
                                     softmax ? Weighting::kSoftmax : Weighting::kLinear);
      ExpectRow(outputs[0], PlainOutput(plain[0], plain, ones, softmax));  // the special token
      ExpectRow(outputs[1], PlainOutput(plain[6], plain, ones, softmax));  // of its group
      ExpectRow(outputs[2], PlainOutput(plain[1], plain, ones, softmax));
      ExpectRow(outputs[6], PlainOutput(plain[23], plain, ones, softmax));
    }
  }
}

TEST(Separation, CrossAttentionOfKindsIsThatOfAllTokens) {
  const int64_t n = 20, d = 5;
  const double log = std::log(20.0);
  std::vector<std::vector<double>> queries(n, std::vector<double>(d, log)),
      keys(n, std::vector<double>(d));
  for (size_t j = 0; j < 20; ++j) {
    queries[j][0] = j == 1 ? 3 * log : 0;
    keys[j][0] = j == 0 ? 1 : 0;
    keys[j][1 + j % 4] = 1;
  }
  const TokenData data = CrossTokens({.tokens = n, .dim = d, .a = 3});
  for (const bool softmax : {false, true}) {
    const Rows outputs =
        OutputsOf(data, Between::kIdentity, softmax ? Weighting::kSoftmax : Weighting::kLinear);
    ASSERT_EQ(outputs.size(), 2);
    ExpectRow(outputs[0], PlainOutput(queries[1], keys, false, softmax));
    ExpectRow(outputs[1], PlainOutput(queries[7], keys, false, softmax));
  }
}

// Tokens stand in the order of the paper, and the special one is where it was asked for.
TEST(Separation, TokensAreInOrder) {
  for (const int64_t special : {0, 7}) {
    const TokenData data = SelfTokens({.tokens = 12, .dim = 6, .a = 1.2, .special = special});
    const double root = std::sqrt(std::log(12.0));
    ASSERT_EQ(data.keys.order.size(), 12u);
    int64_t count = 0;
    for (int64_t j = 0; j < 12; ++j) {
      const double* row = data.keys.rows[data.keys.order[static_cast<size_t>(j)]];
      for (int64_t i = 0; i < 6; ++i) {
        const double expected = i == 0   ? (j == special ? 1.2 : 0)
                                : i == 5 ? 0.8
                                         : (i - 1 == j % 4 ? 0.2 : 0);
        EXPECT_NEAR(row[i], expected * root, 1e-12) << j << " " << i;
      }
    }
    for (const int64_t tokens : data.keys.counts) count += tokens;
    EXPECT_EQ(count, 12);
  }
}

// A stack that is cut off: eleven rows of the identity, 200 = 18 · 11 + 2 tokens.
TEST(Separation, StacksCanBeCutOff) {
  const TokenData cross = CrossTokens({.tokens = 200, .dim = 12, .a = 3, .stack = Stack::kCut});
  ASSERT_EQ(cross.keys.rows.size(), 12);
  EXPECT_EQ(cross.keys.counts,
            (std::vector<int64_t>{1, 18, 19, 18, 18, 18, 18, 18, 18, 18, 18, 18}));
  // Fewer tokens than rows: only the kinds that have a token are there.
  const TokenData few = SelfTokens({.tokens = 3, .dim = 7, .a = 1, .stack = Stack::kCut});
  EXPECT_EQ(few.keys.counts, (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(few.keys.order, (std::vector<int64_t>{0, 1, 2}));
}

// Softmax does not see what lies outside of the span of centred keys.
TEST(Separation, SpanOfKeysKeepsSoftmax) {
  const TokenData data = CrossTokens({.tokens = 20, .dim = 5, .a = 3}), span = OnSpanOfKeys(data);
  EXPECT_EQ(span.keys.rows.columns, 4);  // five kinds of keys, centred
  const Rows before = OutputsOf(data, Between::kIdentity, Weighting::kSoftmax),
             after = OutputsOf(span, Between::kIdentity, Weighting::kSoftmax);
  ASSERT_EQ(before.values.size(), after.values.size());
  for (size_t i = 0; i < before.values.size(); ++i)
    EXPECT_NEAR(before.values[i], after.values[i], 1e-10);
}

TEST(Separation, FiresAboveTheThreshold) {
  const Rows outputs{.columns = 2, .values = {1, 0.5, 0.2, 0.1}},
      signs{.columns = 2, .values = {1, -1, -1, 1}};
  EXPECT_TRUE(Fires(outputs, signs, 0.49));  // 1 − 0.5
  EXPECT_FALSE(Fires(outputs, signs, 0.5));  // not above
  const Rows repeated{.columns = 2, .values = {1, 0.5, 0.2, 0.1, 1, 0.5, 0.5, 1, 0.2, 0.1}};
  EXPECT_EQ(Distinct(repeated).values, (std::vector<double>{1, 0.5, 0.2, 0.1, 0.5, 1}));
}

TEST(Separation, SignsAreFairAndOfTheirTrial) {
  const RandomStream stream(1, "signs");
  const Rows signs = SignsOf(100, 101, stream.Child(0));
  double sum = 0;
  for (const double sign : signs.values) {
    EXPECT_EQ(std::fabs(sign), 1);
    sum += sign;
  }
  EXPECT_LT(std::fabs(sum), 4.5 * std::sqrt(100 * 101));
  EXPECT_EQ(signs.values, SignsOf(100, 101, stream.Child(0)).values);
  EXPECT_NE(signs.values, SignsOf(100, 101, stream.Child(1)).values);
}

// Wilson's interval for 8 of 10 by hand.
TEST(Separation, SharesHaveWilsonsInterval) {
  const Share share = ShareOf(8, 10);
  EXPECT_DOUBLE_EQ(share.value, 0.8);
  EXPECT_NEAR(share.low, 0.490, 5e-4);
  EXPECT_NEAR(share.high, 0.943, 5e-4);
  EXPECT_EQ(ShareOf(0, 50).low, 0);
  EXPECT_NEAR(ShareOf(0, 50).high, 0.0713, 5e-4);
}

TEST(Separation, RefusesWhatDoesNotDivide) {
  const auto expect = [](const auto& call, const std::string& message) {
    try {
      call();
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  expect([] { SelfTokens({.tokens = 201, .dim = 22}); }, "n to be a multiple of d − 2");
  expect([] { SelfTokens({.tokens = 200, .dim = 2}); }, "given n = 200 and d = 2, expected n ≥ 2");
  expect([] { SelfTokens({.tokens = 1, .dim = 3, .stack = Stack::kCut}); }, "expected n ≥ 2");
  expect([] { CrossTokens({.tokens = 200, .dim = 12}); }, "n to be a multiple of d − 1");
}

// Success ratios of an independent program, 2000 trials each; two such ratios differ by less than
// 4.5 standard errors of the pooled proportion, which is taken as at least 1/2000.
void ExpectRatio(const Events& events, double reference, const std::string& where) {
  const double n = 2000, ratio = static_cast<double>(events.separated) / n,
               pooled = std::clamp((ratio + reference) / 2, 1 / n, 1 - 1 / n);
  EXPECT_NEAR(ratio, reference, 4.5 * std::sqrt(2 * pooled * (1 - pooled) / n) + 6e-4) << where;
}

// The same of a reference that is given as a range, or with two digits.
void ExpectRatioBetween(const Events& events, double low, double high, const std::string& where) {
  const double ratio = static_cast<double>(events.separated) / 2000;
  ExpectRatio(events, std::clamp(ratio, low, high), where);
}

Events SelfEvents(const SelfParameters& one, double a0, int64_t hidden, Between between) {
  SelfParameters zero = one;
  zero.a = a0;
  const auto n = static_cast<double>(one.tokens);
  return CountEvents(
      OutputsOfFour(SelfTokens(one), SelfTokens(zero), between),
      {.count = 2000, .hidden = hidden, .threshold = (one.c + 0.1) * std::sqrt(std::log(n))},
      RandomStream(10, "test").Child(static_cast<uint64_t>(one.a * 1000 + a0 * 100000)),
      Context({.seed = 7}));
}

// References that stand for several points, and the shares of trials in which each network fires.
TEST(Separation, RangesAndEventsOfAnIndependentProgram) {
  for (const double a1 : {.2, .4})
    ExpectRatioBetween(SelfEvents({.a = a1}, .01, 15, Between::kIdentity), 0, 0, "a1");
  for (const double a1 : {.7, .9, 1.2, 1.5})
    ExpectRatioBetween(SelfEvents({.a = a1}, .01, 15, Between::kOnes), .885, .902, "a1, ones");
  for (const double a0 : {.05, .15, .25})
    ExpectRatioBetween(SelfEvents({.a = 1.2}, a0, 15, Between::kOnes), .885, .895, "a0, ones");
  const auto cross = [](int64_t d, double a0, double a1) {
    const auto tokens = [&](double a) {
      return CrossTokens({.tokens = 200, .dim = d, .a = a, .stack = Stack::kCut});
    };
    return CountEvents(OutputsOfFour(tokens(a1), tokens(a0), Between::kIdentity),
                       {.count = 2000, .hidden = 10, .threshold = 0.9},
                       RandomStream(11, "test").Child(static_cast<uint64_t>(d)),
                       Context({.seed = 7}));
  };
  for (const int64_t d : {21, 26, 41, 51}) ExpectRatioBetween(cross(d, .01, 3), .935, .955, "d");
  for (const double a1 : {1.1, 1.5, 2.0}) ExpectRatioBetween(cross(11, .01, a1), .925, .945, "a1");
  for (const double a0 : {.1, .3, .5}) ExpectRatioBetween(cross(11, a0, 3), .925, .945, "a0");
  ExpectRatioBetween(cross(12, .01, 1.2), .935, .945, "a1, cut");
  ExpectRatioBetween(cross(12, .3, 3), .925, .935, "a0, cut");
  ExpectRatioBetween(CountRegressionEvents(1000, {.count = 2000, .hidden = 12, .threshold = 0.5},
                                           RandomStream(12, "test"), Context({.seed = 7})),
                     .999, 1, "regression");
  const double fired[][5] = {{200, .99, .53, .34, .34}, {1000, .99, .35, .35, .35}};
  for (const auto& row : fired) {
    const Events events = SelfEvents({.tokens = static_cast<int64_t>(row[0]), .dim = 12, .a = 1.2},
                                     .01, 15, Between::kIdentity);
    for (size_t i = 0; i < 4; ++i) {
      const double reference = row[i + 1];
      EXPECT_NEAR(static_cast<double>(events.fired[i]) / 2000, reference,
                  4.5 * std::sqrt(2 * reference * (1 - reference) / 2000) + 5e-3)
          << i;
    }
  }
}

struct SelfCase {
  SelfParameters one;
  double a0;
  int64_t hidden;
  double identity, ones;  // reference ratios; below 0: none
};

TEST(Separation, SelfRatiosOfAnIndependentProgram) {
  std::vector<SelfCase> cases;
  const auto add = [&](SelfParameters one, double a0, int64_t hidden, double identity,
                       double ones) {
    cases.push_back({one, a0, hidden, identity, ones});
  };
  const double by_n[][3] = {{200, .460, .649},
                            {400, .625, .646},
                            {600, .660, .644},
                            {800, .649, .645},
                            {1000, .641, .644}};
  for (const auto& [n, i, o] : by_n)
    add({.tokens = static_cast<int64_t>(n), .dim = 12, .a = 1.2}, .01, 15, i, o);
  const double by_d[][3] = {{4, .123, .132},  {6, .073, .220},  {10, .307, .494},
                            {18, .744, .819}, {34, .944, .972}, {66, .989, .985}};
  for (const auto& [d, i, o] : by_d)
    add({.tokens = 256, .dim = static_cast<int64_t>(d), .a = 1.2}, .01, 15, i, o);
  const double by_m[][3] = {{1, .242, .253},  {2, .416, .415},  {3, .539, .556},  {5, .682, .738},
                            {8, .785, .847},  {10, .797, .849}, {15, .758, .894}, {20, .711, .861},
                            {30, .606, .816}, {40, .496, .763}, {60, .357, .668}, {80, .251, .573}};
  for (const auto& [m, i, o] : by_m) add({.a = 1.2}, .01, static_cast<int64_t>(m), i, o);
  const double by_a1[][3] = {{.1, 0, 0},      {.3, 0, 0},      {.5, 0, .772},   {.6, .085, .885},
                             {.7, .385, -1},  {.8, .780, -1},  {.9, .840, -1},  {1, .842, -1},
                             {1.1, .837, -1}, {1.2, .768, -1}, {1.5, .722, -1}, {2, .345, .776},
                             {3, .012, .465}};
  for (const auto& [a1, i, o] : by_a1) add({.a = a1}, .01, 15, i, o);
  const double by_a0[][3] = {{.01, .783, .89}, {.1, .766, .89},  {.2, .776, .89},
                             {.3, .806, .89},  {.4, .803, .651}, {.5, .819, .115},
                             {.6, .797, 0},    {.7, .477, 0},    {.8, .054, 0}};
  for (const auto& [a0, i, o] : by_a0) add({.a = 1.2}, a0, 15, i, o);
  const double by_c[][5] = {{.5, .615, .908, .034, .159},
                            {.6, .720, .897, .226, .366},
                            {.7, .763, .878, .465, .466},
                            {.8, .760, .888, .750, .894},
                            {.9, .847, .891, .989, .987}};
  for (const auto& [c, i, o, i_one, o_one] : by_c) {
    add({.a = 1.2, .b = .2, .c = c}, .01, 15, i, o);
    add({.a = 1.2, .b = 1 - c, .c = c}, .01, 15, i_one, o_one);
  }
  const Context context({.seed = 7});
  uint64_t figure = 0;
  for (const SelfCase& one : cases) {
    SelfParameters zero = one.one;
    zero.a = one.a0;
    const double threshold =
        (one.one.c + 0.1) * std::sqrt(std::log(static_cast<double>(one.one.tokens)));
    for (const Between between : {Between::kIdentity, Between::kOnes}) {
      const double reference = between == Between::kIdentity ? one.identity : one.ones;
      if (reference < 0) continue;
      const Events events =
          CountEvents(OutputsOfFour(SelfTokens(one.one), SelfTokens(zero), between),
                      {.count = 2000, .hidden = one.hidden, .threshold = threshold},
                      RandomStream(7, "test").Child(++figure), context);
      ExpectRatio(events, reference,
                  "n " + std::to_string(one.one.tokens) + " d " + std::to_string(one.one.dim) +
                      " m " + std::to_string(one.hidden) + " a1 " + std::to_string(one.one.a) +
                      " a0 " + std::to_string(one.a0) + " c " + std::to_string(one.one.c) +
                      (between == Between::kOnes ? " ones" : ""));
    }
  }
}

TEST(Separation, CrossRatiosOfAnIndependentProgram) {
  const Context context({.seed = 7});
  uint64_t figure = 0;
  const auto expect = [&](int64_t n, int64_t d, int64_t m, double a0, double a1, double reference) {
    const auto tokens = [&](double a) {
      return CrossTokens({.tokens = n, .dim = d, .a = a, .stack = Stack::kCut});
    };
    ExpectRatio(CountEvents(OutputsOfFour(tokens(a1), tokens(a0), Between::kIdentity),
                            {.count = 2000, .hidden = m, .threshold = 0.9},
                            RandomStream(8, "test").Child(++figure), context),
                reference,
                "n " + std::to_string(n) + " d " + std::to_string(d) + " m " + std::to_string(m) +
                    " a1 " + std::to_string(a1) + " a0 " + std::to_string(a0));
  };
  const double by_n[][3] = {
      {200, 10, .930}, {400, 11, .940}, {600, 11, .944}, {800, 11, .952}, {1000, 12, .955}};
  for (const auto& [n, m, r] : by_n)
    expect(static_cast<int64_t>(n), 11, static_cast<int64_t>(m), .01, 3, r);
  const double by_d[][2] = {{2, 0}, {3, .056}, {5, .487}, {6, .676}, {9, .914}, {11, .938}};
  for (const auto& [d, r] : by_d) expect(200, static_cast<int64_t>(d), 10, .01, 3, r);
  const double by_m[][2] = {{1, .261},  {2, .429},  {3, .568},  {5, .748},  {8, .888},  {10, .931},
                            {15, .970}, {20, .974}, {30, .975}, {40, .969}, {60, .943}, {80, .911}};
  for (const auto& [m, r] : by_m) expect(200, 11, static_cast<int64_t>(m), .01, 3, r);
  const double by_a1[][2] = {{.5, 0}, {.7, .035}, {.8, .207}, {.9, .472}, {1, .863}};
  for (const auto& [a1, r] : by_a1) expect(200, 11, 10, .01, a1, r);
  const double by_a0[][2] = {{.6, .900}, {.7, .889}, {.8, .739}, {.9, .459}};
  for (const auto& [a0, r] : by_a0) expect(200, 11, 10, a0, 3, r);
  // d = 12 does not divide: the stack is cut off.
  const double cut_by_a1[][2] = {{.7, .026}, {.8, .141}, {.9, .622}, {1, .895}};
  for (const auto& [a1, r] : cut_by_a1) expect(200, 12, 10, .01, a1, r);
  const double cut_by_a0[][2] = {{.6, .920}, {.7, .911}, {.8, .815}, {.9, .316}};
  for (const auto& [a0, r] : cut_by_a0) expect(200, 12, 10, a0, 3, r);
}

TEST(Separation, RegressionRatiosOfAnIndependentProgram) {
  const Context context({.seed = 7});
  const auto expect = [&](int64_t n, int64_t m, double threshold, double reference) {
    ExpectRatio(CountRegressionEvents(
                    n, {.count = 2000, .hidden = m, .threshold = threshold},
                    RandomStream(9, "test").Child(static_cast<uint64_t>(n * 1000 + m)), context),
                reference, "n " + std::to_string(n) + " m " + std::to_string(m));
  };
  const double by_n[][3] = {{100, .859, .942},
                            {200, .966, .968},
                            {500, .979, .982},
                            {1000, .985, .983},
                            {2000, .990, .994}};
  for (const auto& [n, low, middle] : by_n) {
    const auto tokens = static_cast<int64_t>(n), hidden = static_cast<int64_t>(std::log(n));
    expect(tokens, hidden, .25, low);
    expect(tokens, hidden, .5, middle);
  }
  const double by_m[][2] = {{1, .505}, {2, .740}, {3, .881}, {4, .936},
                            {5, .965}, {6, .983}, {8, .996}};
  for (const auto& [m, r] : by_m) expect(1000, static_cast<int64_t>(m), .5, r);
}

TEST(Separation, CountsDoNotDependOnThreads) {
  const FourOutputs outputs =
      OutputsOfFour(SelfTokens({.a = 1.2}), SelfTokens({.a = 0.01}), Between::kIdentity);
  const auto run = [&](int threads) {
    const Context context({.threads = threads});
    const Trials trials{.count = 100, .hidden = 15, .threshold = 0.9 * std::sqrt(std::log(200.0))};
    Events events = CountEvents(outputs, trials, RandomStream(1, "threads"), context);
    events += CountRegressionEvents(100, {.count = 100, .hidden = 4, .threshold = 0.5},
                                    RandomStream(2, "threads"), context);
    return events;
  };
  const Events one = run(1);
  EXPECT_EQ(one.trials, 200);
  for (const int threads : {2, 5}) {
    const Events other = run(threads);
    EXPECT_EQ(other.separated, one.separated);
    EXPECT_EQ(other.fired, one.fired);
  }
}

TEST(Grid, HasItsEnds) {
  EXPECT_EQ(Grid(200, 10, 230), (std::vector<double>{200, 210, 220, 230}));
  EXPECT_EQ(Grid(0.1, 0.036, 3).size(), 81u);
  EXPECT_EQ(Grid(0.01, 0.01, 0.8).size(), 80u);
  EXPECT_EQ(Grid(0.5, 0.005, 0.9).size(), 81u);
}

}  // namespace
}  // namespace favor::experiments
