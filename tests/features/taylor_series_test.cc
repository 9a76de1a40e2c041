#include "favor/taylor_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "favor/error.h"
#include "favor/random.h"

namespace favor {
namespace {

double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }

TEST(PowerSeries, AreThoseOfTheirFunctions) {
  for (const double t : {-3.0, -0.5, 0.0, 0.8, 2.0, 3.5})
    EXPECT_NEAR(GeluSeries(60)(t), Gelu(t), 1e-10) << t;
  for (const double t : {-1.0, 0.3, 1.0}) EXPECT_NEAR(TanhSeries(60)(t), std::tanh(t), 1e-12) << t;
  for (const double t : {-2.0, 0.3, 2.0})
    EXPECT_NEAR(SigmoidSeries(60)(t), 1 / (1 + std::exp(-t)), 1e-12) << t;
}

// a_1 = 1/2, a_2 = 1/√(2π), a_4 = −1/(6√(2π)), a_6 = 1/(40√(2π)); tanh t = t − t³/3 + 2t⁵/15 …
TEST(PowerSeries, HaveTheirFirstTermsByHand) {
  const PowerSeries gelu = GeluSeries(4);
  EXPECT_EQ(gelu.powers, (std::vector<int>{1, 2, 4, 6}));
  const double root = std::sqrt(2 * std::numbers::pi);
  EXPECT_NEAR(gelu.coefficients[1], 1 / root, 1e-15);
  EXPECT_NEAR(gelu.coefficients[2], -1 / (6 * root), 1e-15);
  EXPECT_NEAR(gelu.coefficients[3], 1 / (40 * root), 1e-15);
  EXPECT_NEAR(gelu.SumOfSizes(-2), 1 + 4 / root + 16 / (6 * root) + 64 / (40 * root), 1e-12);
  const PowerSeries tanh = TanhSeries(3), sigmoid = SigmoidSeries(3);
  EXPECT_NEAR(tanh.coefficients[1], -1.0 / 3, 1e-15);
  EXPECT_NEAR(tanh.coefficients[2], 2.0 / 15, 1e-15);
  EXPECT_EQ(sigmoid.powers, (std::vector<int>{0, 1, 3}));
  EXPECT_NEAR(sigmoid.coefficients[1], 0.25, 1e-15);
  EXPECT_NEAR(sigmoid.coefficients[2], -1.0 / 48, 1e-15);
}

TEST(Laws, AreProbabilities) {
  const std::vector<double> geometric = GeometricLaw(0.3, 4), poisson = PoissonLaw(2, 3);
  EXPECT_NEAR(geometric[0], 0.3, 1e-15);
  EXPECT_NEAR(geometric[1], 0.21, 1e-15);
  EXPECT_NEAR(geometric[3], 0.343, 1e-15);
  EXPECT_NEAR(poisson[0], std::exp(-2), 1e-15);
  EXPECT_NEAR(poisson[1], 2 * std::exp(-2), 1e-15);
  EXPECT_NEAR(poisson[2], 1 - 3 * std::exp(-2), 1e-12);
  // E K = 1/ρ − 1.
  double mean = 0;
  const std::vector<double> many = GeometricLaw(0.3, 200);
  for (size_t k = 0; k < many.size(); ++k) mean += static_cast<double>(k) * many[k];
  EXPECT_NEAR(mean, 1 / 0.3 - 1, 1e-12);
}

// Three terms, 2 − 3t + t³ at t = 2 with û of variances 1, 4, 9 about 1, 2, 8.
class ThreeTerms : public testing::Test {
 protected:
  const PowerSeries series_{.powers = {0, 1, 3}, .coefficients = {2, -3, 1}};
  const PowerMoments powers_{.means = {1, 2, 8}, .variances = {1, 4, 9}};
};

TEST_F(ThreeTerms, SingleDrawsByHand) {
  const auto single = SeriesEstimator::SingleTerm(series_, {0.5, 0.25, 0.25});
  EXPECT_NEAR(single.Mean(powers_), 2 - 6 + 8, 1e-12);
  // Σ a²E û²/p = 4·2/0.5 + 9·8/0.25 + 73/0.25
  EXPECT_NEAR(single.SecondMoment(powers_), 16 + 288 + 292, 1e-10);
  EXPECT_EQ(single.ExpectedTerms(), 1);
  const std::vector<double> best = OptimalLaw(series_, powers_);
  const double sum = 2 * std::sqrt(2) + 3 * std::sqrt(8) + std::sqrt(73);
  EXPECT_NEAR(best[1], 3 * std::sqrt(8) / sum, 1e-12);
  EXPECT_NEAR(SeriesEstimator::SingleTerm(series_, best).SecondMoment(powers_), sum * sum, 1e-9);
}

// Reached with 1, 1/2, 1/4: Σ a²E û²/q + 2 Σ_{j<k} a_j a_k t^{j+k}/q_j.
TEST_F(ThreeTerms, RouletteByHand) {
  const auto roulette = SeriesEstimator::Roulette(series_, 0.5);
  EXPECT_NEAR(roulette.Mean(powers_), 4, 1e-12);
  EXPECT_NEAR(roulette.SecondMoment(powers_),
              8 + 72 * 2 + 73 * 4 + 2 * (2 * -6 + 2 * 8) / 1.0 + 2 * (-6 * 8) / 0.5, 1e-10);
  EXPECT_NEAR(roulette.ExpectedTerms(), 1.75, 1e-12);
}

TEST_F(ThreeTerms, HeadAndTailByHand) {
  const auto estimator = SeriesEstimator::HeadAndTail(series_, 1, {0.25, 0.75});
  EXPECT_NEAR(estimator.Mean(powers_), 4, 1e-12);
  const double one = 0.25 * (std::pow(2 - 6 / 0.25, 2) + 4 * 1 + 9 * 4 / (0.25 * 0.25)),
               two = 0.75 * (std::pow(2 + 8 / 0.75, 2) + 4 * 1 + 9 / (0.75 * 0.75));
  EXPECT_NEAR(estimator.SecondMoment(powers_), one + two, 1e-9);
  EXPECT_EQ(estimator.ExpectedTerms(), 2);
}

TEST_F(ThreeTerms, DrawsByHand) {
  const auto estimate = [](int power) { return 10.0 + power; };
  const auto single = SeriesEstimator::SingleTerm(series_, {0.5, 0.25, 0.25});
  EXPECT_NEAR(single.Draw(0.49, estimate), 2 * 10 / 0.5, 1e-12);
  EXPECT_NEAR(single.Draw(0.51, estimate), -3 * 11 / 0.25, 1e-12);
  EXPECT_NEAR(single.Draw(0.999, estimate), 13 / 0.25, 1e-12);
  const auto roulette = SeriesEstimator::Roulette(series_, 0.5);
  EXPECT_NEAR(roulette.Draw(0.1, estimate), 20, 1e-12);
  EXPECT_NEAR(roulette.Draw(0.6, estimate), 20 - 33 / 0.5, 1e-12);
  EXPECT_NEAR(roulette.Draw(0.8, estimate), 20 - 33 / 0.5 + 13 / 0.25, 1e-12);
  const auto head = SeriesEstimator::HeadAndTail(series_, 1, {0.25, 0.75});
  EXPECT_NEAR(head.Draw(0.1, estimate), 20 - 33 / 0.25, 1e-12);
}

// Draws against the exact moments, four standard errors.
TEST(SeriesEstimator, DrawsHaveTheMomentsOfTheFormulas) {
  const PowerSeries series = GeluSeries(30);
  const double t = 1.5;
  const PowerMoments powers = ExactPowers(series, t);
  const std::vector<double> best = OptimalLaw(series, powers);
  PowerSeries tail = series;
  tail.powers.erase(tail.powers.begin(), tail.powers.begin() + 3);
  tail.coefficients.erase(tail.coefficients.begin(), tail.coefficients.begin() + 3);
  const SeriesEstimator estimators[] = {
      SeriesEstimator::SingleTerm(series, GeometricLaw(0.3, 30)),
      SeriesEstimator::SingleTerm(series, PoissonLaw(1.5, 30)),
      SeriesEstimator::SingleTerm(series, best), SeriesEstimator::Roulette(series, 0.6),
      SeriesEstimator::HeadAndTail(series, 3, OptimalLaw(tail, ExactPowers(tail, t)))};
  constexpr int kDraws = 200000;
  uint64_t figure = 0;
  for (const SeriesEstimator& estimator : estimators) {
    EXPECT_NEAR(estimator.Mean(powers), Gelu(t), 1e-9);
    const RandomStream stream = RandomStream(5, "draws").Child(figure++);
    double sum = 0, square = 0, fourth = 0;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const double value =
          estimator.Draw(stream.Uniform(i), [&](int power) { return std::pow(t, power); });
      sum += value / kDraws;
      square += value * value / kDraws;
      fourth += std::pow(value, 4) / kDraws;
    }
    const double second = estimator.SecondMoment(powers);
    EXPECT_NEAR(sum, Gelu(t), 4 * std::sqrt((second - Gelu(t) * Gelu(t)) / kDraws));
    EXPECT_NEAR(square, second, 4 * std::sqrt((fourth - square * square) / kDraws));
  }
}

TEST(SeriesEstimator, RefusesWhatIsNoLaw) {
  const PowerSeries series = GeluSeries(3);
  EXPECT_THROW(SeriesEstimator::SingleTerm(series, {0.5, 0.5}), Error);
  EXPECT_THROW(SeriesEstimator::SingleTerm(series, {0.5, 0.5, 0}), Error);
  EXPECT_THROW(SeriesEstimator::SingleTerm(series, {0.5, 0.5, 0.5}), Error);
  EXPECT_THROW(SeriesEstimator::Roulette(series, 1), Error);
  EXPECT_THROW(SeriesEstimator::HeadAndTail(series, 3, {}), Error);
  EXPECT_THROW(GeluSeries(0), Error);
  EXPECT_THROW(GeometricLaw(0, 3), Error);
  EXPECT_THROW(PoissonLaw(-1, 3), Error);
}

}  // namespace
}  // namespace favor
