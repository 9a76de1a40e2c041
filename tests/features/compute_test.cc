// Features of arrays: fast kernels against the reference, gradients against finite differences, and
// the same bits for any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "favor/error.h"
#include "favor/features.h"
#include "favor/random.h"

namespace favor {
namespace {

Tensor RandomRows(const Shape& shape, double scale, uint64_t seed = 1) {
  Tensor rows(shape, DataType::kF64);
  RandomStream(seed, "rows")
      .FillNormal(0, {rows.Data<double>(), static_cast<size_t>(shape.Elements())});
  for (int64_t i = 0; i < shape.Elements(); ++i) {
    rows.Data<double>()[i] = static_cast<float>(scale * rows.Data<double>()[i]);
  }
  return rows;
}

struct Parts {
  Tensor exponents, factors;
};

Parts Compute(const FeaturePlan& plan, const Tensor& x, DataType type, const Context& context) {
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < x.shape().rank(); ++axis) sizes.push_back(x.shape()[axis]);
  sizes.back() = plan.width();
  const Shape shape{std::span<const int64_t>(sizes)};
  Parts parts{Tensor(shape, type), Tensor(shape, type)};
  FeatureExponents(plan, x, context, parts.exponents, parts.factors);
  return parts;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.view().data(), b.view().data(), static_cast<size_t>(a.Bytes())) == 0;
}

class EveryMapAndProjection : public testing::TestWithParam<FeatureOptions> {};

TEST_P(EveryMapAndProjection, FloatEqualsTheReference) {
  const auto plan = FeaturePlan::Draw(GetParam(), 2, 12, 3);
  const Tensor x = RandomRows({2, 37, 12}, 0.8);
  const Context context({.threads = 2});
  const Parts reference = Compute(plan, x, DataType::kF64, context);
  const Parts fast = Compute(plan, x.To(DataType::kF32), DataType::kF32, context);
  for (int64_t i = 0; i < reference.exponents.shape().Elements(); ++i) {
    ASSERT_NEAR(fast.exponents.Data<float>()[i], reference.exponents.Data<double>()[i], 2e-5);
    const double factor = reference.factors.Data<double>()[i];
    const bool jump =
        GetParam().map == "sgn" && std::fabs(fast.factors.Data<float>()[i] - factor) > 1;
    ASSERT_TRUE(jump || std::fabs(fast.factors.Data<float>()[i] - factor) < 2e-5) << factor;
  }
}

TEST_P(EveryMapAndProjection, GradientEqualsFiniteDifferences) {
  const auto plan = FeaturePlan::Draw(GetParam(), 2, 5, 3);
  const Tensor x = RandomRows({2, 3, 5}, 0.7, 2);
  const Context context({.threads = 1});
  const int64_t width = plan.width(), outputs = 2 * 3 * width;
  const Tensor grad_exponents = RandomRows({2, 3, width}, 1, 3),
               grad_factors = RandomRows({2, 3, width}, 1, 4);
  const auto loss = [&](const Tensor& at) {
    const Parts parts = Compute(plan, at, DataType::kF64, context);
    double sum = 0;
    for (int64_t i = 0; i < outputs; ++i) {
      sum += grad_exponents.Data<double>()[i] * parts.exponents.Data<double>()[i] +
             grad_factors.Data<double>()[i] * parts.factors.Data<double>()[i];
    }
    return sum;
  };
  Tensor grad({2, 3, 5}, DataType::kF64), grad_f32({2, 3, 5});
  FeatureExponentsBackward(plan, x, grad_exponents, grad_factors, context, grad);
  FeatureExponentsBackward(plan, x, grad_exponents.To(DataType::kF32),
                           grad_factors.To(DataType::kF32), context, grad_f32);
  double largest = 0;
  for (int64_t i = 0; i < 30; ++i) largest = std::max(largest, std::fabs(grad.Data<double>()[i]));
  for (int64_t i = 0; i < 30; ++i) {
    const double step = 1e-6;
    Tensor up = x.Clone(), down = x.Clone();
    up.Data<double>()[i] += step;
    down.Data<double>()[i] -= step;
    // sgn jumps at u = 0, which Hadamard rows may come near; its derivative is 0 by definition.
    const double want = GetParam().map == "sgn" ? 0 : (loss(up) - loss(down)) / (2 * step);
    EXPECT_NEAR(grad.Data<double>()[i], want, 1e-7 * (1 + largest)) << i;
    EXPECT_NEAR(grad_f32.Data<float>()[i], want, 1e-4 * (1 + largest)) << i;
  }
}

TEST_P(EveryMapAndProjection, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto plan = FeaturePlan::Draw(GetParam(), 2, 12, 3);
  const Tensor x = RandomRows({2, 150, 12}, 0.8);
  for (const DataType type : {DataType::kF32, DataType::kF64}) {
    const Parts one = Compute(plan, x, type, Context({.threads = 1}));
    for (const int threads : {2, 3, 8, 16}) {
      const Parts many = Compute(plan, x, type, Context({.threads = threads}));
      EXPECT_TRUE(SameBits(one.exponents, many.exponents) && SameBits(one.factors, many.factors))
          << threads;
    }
  }
}

std::vector<FeatureOptions> AllOptions() {
  std::vector<FeatureOptions> all;
  for (const FeatureMapInfo& map : Maps()) {
    for (const ProjectionInfo& projection : Projections()) {
      if (projection.name == "none" && map.kernel != KernelFamily::kGeneralized) continue;
      all.push_back({.map = std::string(map.name),
                     .projection = std::string(projection.name),
                     .features = 19});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Features, EveryMapAndProjection, testing::ValuesIn(AllOptions()),
                         [](const auto& test) {
                           std::string name = test.param.map + "_" + test.param.projection;
                           std::erase(name, '-');
                           return name;
                         });

// Computes φ of `positive` by hand, from ω.
TEST(Features, AreTheFormula) {
  const auto plan = FeaturePlan::Draw({.map = "positive", .features = 7}, 1, 3, 1);
  const Tensor x = RandomRows({4, 3}, 1), omega = plan.Omega();
  const Tensor phi = Features(plan, x, Context());
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t r = 0; r < 7; ++r) {
      double u = 0, square = 0;
      for (int64_t i = 0; i < 3; ++i) {
        u += x.Data<double>()[row * 3 + i] * omega.Data<float>()[r * 3 + i];
        square += std::pow(x.Data<double>()[row * 3 + i], 2);
      }
      EXPECT_NEAR(phi.Data<double>()[row * 7 + r], std::exp(u - square / 2) / std::sqrt(7), 1e-12);
    }
  }
}

TEST(Features, UseOneOmegaForEachHeadAndTheSameForEachBatch) {
  const Tensor row = RandomRows({1, 4}, 1);
  Tensor x({2, 3, 1, 4}, DataType::kF64);
  for (int64_t i = 0; i < 6; ++i) std::memcpy(x.Data<double>() + 4 * i, row.Data<double>(), 32);
  const auto phi = [&](bool shared) {
    return Features(FeaturePlan::Draw({.features = 5, .shared_omega = shared}, 3, 4, 1), x,
                    Context());
  };
  const Tensor separate = phi(false), shared = phi(true);
  const double *a = separate.Data<double>(), *b = shared.Data<double>();
  EXPECT_NE(a[0], a[5]);
  EXPECT_EQ(a[0], a[15]);
  EXPECT_EQ(b[0], b[5]);
  EXPECT_EQ(a[0], b[0]);
}

// A, and the normaliser that follows from it, are those of each head: a head gives what it gives
// alone.
TEST(Features, UseTheConstantsOfEachHead) {
  const Tensor x = RandomRows({2, 2, 3, 4}, 0.5);
  const std::vector<double> a = {-0.05, -0.3};
  const auto plan = FeaturePlan::Draw({.map = "oprf", .features = 5, .oprf_a = a}, 2, 4, 1);
  const Tensor omega = plan.Omega(), phi = Features(plan, x, Context());
  for (int64_t head = 0; head < 2; ++head) {
    const auto alone = FeaturePlan::WithOmega(
        {.map = "oprf", .oprf_a = {a[static_cast<size_t>(head)]}}, 1, omega.view().At(head));
    for (int64_t batch = 0; batch < 2; ++batch) {
      const Tensor want = Features(alone, x.view().At(batch).At(head), Context());
      for (int64_t i = 0; i < 15; ++i) {
        EXPECT_NEAR(phi.Data<double>()[(batch * 2 + head) * 15 + i], want.Data<double>()[i], 1e-14)
            << head;
      }
    }
  }
}

TEST(Features, SayWhenTheyExceedTheRangeOfDouble) {
  const auto plan = FeaturePlan::Draw({.map = "trigonometric", .features = 5}, 1, 4, 1);
  try {
    Features(plan, RandomRows({3, 4}, 100), Context());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("range of f64"), std::string::npos);
  }
}

TEST(Features, RefuseArraysThatDoNotFit) {
  const auto plan = FeaturePlan::Draw({.features = 5}, 2, 4, 1);
  const Context context;
  EXPECT_THROW(Features(plan, Tensor({4}), context), Error);
  EXPECT_THROW(Features(plan, Tensor({2, 3, 5}), context), Error);
  EXPECT_THROW(Features(plan, Tensor({3, 3, 4}), context), Error);
  EXPECT_THROW(Features(plan, Tensor({2, 0, 4}), context), Error);
  Tensor half({2, 3, 5}, DataType::kF16), right({2, 3, 5}), wrong({2, 3, 6});
  EXPECT_THROW(FeatureExponents(plan, Tensor({2, 3, 4}), context, half, half), Error);
  EXPECT_THROW(FeatureExponents(plan, Tensor({2, 3, 4}), context, right, wrong), Error);
  EXPECT_THROW(
      FeatureExponentsBackward(plan, Tensor({2, 3, 4}), right, wrong, context, Tensor({2, 3, 4})),
      Error);
}

TEST(Features, AcceptStridedAndHalfInputs) {
  const auto plan = FeaturePlan::Draw({.features = 5}, 1, 4, 1);
  const Tensor wide = RandomRows({3, 6}, 0.5);
  Tensor packed({3, 4}, DataType::kF64);
  Copy(wide.view().Range(1, 1, 4), packed);
  EXPECT_TRUE(SameBits(Features(plan, wide.view().Range(1, 1, 4), Context()),
                       Features(plan, packed, Context())));
  const Tensor half = packed.To(DataType::kF16);
  EXPECT_TRUE(SameBits(Features(plan, half, Context()),
                       Features(plan, half.To(DataType::kF64), Context())));
}

}  // namespace
}  // namespace favor
