#include "favor/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "core/philox.h"

namespace favor {
namespace {

constexpr size_t kCount = 1 << 20;

// The same numbers for every build, process and machine: checkpoints and papers depend on them.
TEST(RandomStream, GivesTheNumbersItAlwaysGave) {
  const RandomStream stream = RandomStream(1, "golden").Child(2);
  EXPECT_EQ(stream.Bits(0), 1094779786608816047u);
  EXPECT_EQ(stream.Bits(12345678901), 4785388041790983493u);
  EXPECT_NEAR(stream.Normal(7), -0.053765672713893903, 1e-14);
}

// The known answers that come with the authors' implementation (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  const auto expect = [](uint64_t seed, uint64_t id, uint64_t index, std::array<uint32_t, 4> want) {
    const PhiloxBlock block = Philox(seed, id, index);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], want[i]) << i;
  };
  expect(0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect(~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(RandomStream, DependsOnSeedNameChildAndIndex) {
  std::set<uint64_t> seen;
  size_t draws = 0;
  for (const uint64_t seed : {0U, 1U, 2U}) {
    for (const char* name : {"omega", "dropout", ""}) {
      const RandomStream stream(seed, name);
      for (uint64_t index = 0; index < 8; ++index, draws += 3) {
        seen.insert(stream.Bits(index));
        seen.insert(stream.Child(0).Bits(index));
        seen.insert(stream.Child(1).Bits(index));
      }
    }
  }
  EXPECT_EQ(seen.size(), draws);
}

TEST(RandomStream, FillEqualsSingleDrawsAtAnyOffset) {
  const RandomStream stream(3, "fill");
  for (const size_t first : {0U, 1U, 2U, 5U}) {
    for (const size_t count : {0U, 1U, 2U, 7U, 8U}) {
      std::vector<double> filled(count);
      stream.FillNormal(first, filled);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(filled[i], stream.Normal(first + i));
    }
  }
}

// Means of kCount draws must lie within 4.5 standard errors: one false alarm in 10⁵.
TEST(RandomStream, UniformAndNormalHaveTheirMoments) {
  const RandomStream stream(4, "moments");
  std::vector<double> normal(kCount);
  stream.FillNormal(0, normal);
  double sum[5] = {}, uniform = 0, uniform2 = 0, lag = 0, tail = 0, sign = 0;
  for (size_t i = 0; i < kCount; ++i) {
    double power = 1;
    for (int k = 1; k <= 4; ++k) sum[k] += power *= normal[i];
    if (i > 0) lag += normal[i] * normal[i - 1];
    tail += std::fabs(normal[i]) > 3;
    const double u = stream.Child(1).Uniform(i);
    ASSERT_TRUE(u >= 0 && u < 1);
    uniform += u;
    uniform2 += u * u;
    sign += stream.Child(2).Sign(i);
  }
  const double n = kCount, root = std::sqrt(n);
  EXPECT_NEAR(sum[1] / n, 0, 4.5 / root);
  EXPECT_NEAR(sum[2] / n, 1, 4.5 * std::sqrt(2) / root);
  EXPECT_NEAR(sum[3] / n, 0, 4.5 * std::sqrt(15) / root);
  EXPECT_NEAR(sum[4] / n, 3, 4.5 * std::sqrt(96) / root);
  EXPECT_NEAR(lag / n, 0, 4.5 / root);
  EXPECT_NEAR(tail / n, 0.0026998, 4.5 * std::sqrt(0.0027) / root);
  EXPECT_NEAR(uniform / n, 0.5, 4.5 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(uniform2 / n, 1.0 / 3, 4.5 * std::sqrt(4.0 / 45) / root);
  EXPECT_NEAR(sign / n, 0, 4.5 / root);
}

TEST(RandomStream, StreamsAreUncorrelated) {
  const RandomStream a(5, "a"), b(5, "b"), c = a.Child(1), d = RandomStream(6, "a");
  double ab = 0, ac = 0, ad = 0;
  for (size_t i = 0; i < kCount / 4; ++i) {
    const double x = a.Normal(i);
    ab += x * b.Normal(i);
    ac += x * c.Normal(i);
    ad += x * d.Normal(i);
  }
  const double limit = 4.5 * std::sqrt(kCount / 4.0);
  EXPECT_NEAR(ab, 0, limit);
  EXPECT_NEAR(ac, 0, limit);
  EXPECT_NEAR(ad, 0, limit);
}

}  // namespace
}  // namespace favor
