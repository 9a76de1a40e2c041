// The CUDA kernels against the reference. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "core/device.h"
#include "favor/error.h"
#include "favor/features.h"
#include "favor/random.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};

// What the error says; empty: there is none.
std::string MessageOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Cuda, IsRefusedClearlyWhereItIsMissing) {
  if (!ListGpus().empty()) GTEST_SKIP() << "this machine has a GPU";
  try {
    Tensor tensor({4}, DataType::kF32, kGpu);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
  }
}

// Needs no GPU: arrays that claim to be on a GPU are refused before they are read.
TEST(Cuda, FeaturesNeedAContextOnTheirDevice) {
  const auto plan = FeaturePlan::Draw({.features = 8}, 1, 4, 3);
  float memory[64] = {};
  const auto on_gpu = [&](const Shape& shape) {
    return View(memory, DataType::kF32, shape, RowMajorStrides(shape), kGpu);
  };
  try {
    FeatureExponents(plan, on_gpu({2, 4}), Context(), on_gpu({2, 8}), on_gpu({2, 8}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_STREQ(
        error.what(),
        "features: given arrays on cuda:0 and a context on cpu, expected both on one device");
  }
}

TEST(Cuda, FeaturesEqualTheReference) {
  if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  const Context context, gpu({.device = kGpu});
  for (const FeatureMapInfo& map : Maps()) {
    for (const char* projection : {"orthogonal", "hadamard"}) {
      for (const int64_t d : {3, 64}) {
        if (map.takes_width && d > 3) continue;  // not every one can be drawn, and none runs
        const auto plan = FeaturePlan::Draw(
            {.map = std::string(map.name), .projection = projection, .features = 37}, 2, d, 3);
        Tensor x({2, 45, d}, DataType::kF64);
        RandomStream(1, "rows").FillNormal(0, {x.Data<double>(), static_cast<size_t>(90 * d)});
        for (int64_t i = 0; i < 90 * d; ++i) x.Data<double>()[i] *= 0.3;
        const Tensor x_f32 = x.To(DataType::kF32);
        const Shape shape{2, 45, plan.width()};
        Tensor exponents(shape, DataType::kF32, kGpu), factors(shape, DataType::kF32, kGpu);
        const Tensor x_gpu = x_f32.To(kGpu);
        if (map.takes_width || (!map.has_omega && map.is_random)) {
          EXPECT_EQ(MessageOf([&] { FeatureExponents(plan, x_gpu, gpu, exponents, factors); }),
                    "features: the map '" + std::string(map.name) + "' runs on the cpu only");
          continue;
        }
        FeatureExponents(plan, x_gpu, gpu, exponents, factors);
        const Tensor host_exponents = exponents.To(Device{}), host_factors = factors.To(Device{});
        Tensor want_exponents(shape, DataType::kF64), want_factors(shape, DataType::kF64);
        FeatureExponents(plan, x_f32, context, want_exponents, want_factors);
        for (int64_t i = 0; i < shape.Elements(); ++i) {
          ASSERT_NEAR(host_exponents.Data<float>()[i], want_exponents.Data<double>()[i], 1e-4)
              << map.name;
          const double difference =
              std::fabs(host_factors.Data<float>()[i] - want_factors.Data<double>()[i]);
          ASSERT_TRUE(difference < 1e-4 || (map.name == "sgn" && difference < 2.1))
              << map.name << " " << difference;
        }
      }
    }
  }
}

// Signs of keys, and monomials of a degree without those of the degrees below it.
TEST(Cuda, FeaturesOfSignedPolynomialsEqualTheReference) {
  if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  const Context context, gpu({.device = kGpu});
  const auto plan =
      FeaturePlan::Draw({.map = "poly-exact", .coefficients = {0.5, 0, -2, 1, -0.25}}, 1, 5, 3);
  Tensor x({30, 5});
  for (int64_t i = 0; i < 150; ++i)
    x.Data<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  const Shape shape{30, plan.width()};
  for (const FeatureRole role : {FeatureRole::kQuery, FeatureRole::kKey}) {
    Tensor exponents(shape, DataType::kF32, kGpu), factors(shape, DataType::kF32, kGpu);
    FeatureExponents(plan, x.To(kGpu), gpu, exponents, factors, role);
    const Tensor got = factors.To(Device{});
    Tensor want_exponents(shape, DataType::kF64), want(shape, DataType::kF64);
    FeatureExponents(plan, x, context, want_exponents, want, role);
    for (int64_t i = 0; i < shape.Elements(); ++i)
      ASSERT_NEAR(got.Data<float>()[i], want.Data<double>()[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace favor
