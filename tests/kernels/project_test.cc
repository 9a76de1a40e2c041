#include "kernels/project.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "favor/random.h"
#include "features/projection.h"

namespace favor::kernels {
namespace {

constexpr int64_t kRows = 21;  // one full tile of lanes and a part of one

std::vector<double> RandomValues(int64_t count, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(count));
  RandomStream(seed, "project test").FillNormal(0, values);
  // Representable in f32, so that both kernels see the same numbers.
  for (double& value : values) value = static_cast<float>(value);
  return values;
}

// projection, d, m
class EveryProjection : public testing::TestWithParam<std::tuple<std::string, int64_t, int64_t>> {
 protected:
  Omega Draw(OmegaNorm norm = OmegaNorm::kChi) const {
    const auto& [name, d, m] = GetParam();
    return features::FindProjection(name).draw(
        {.features = m, .dim = d, .norm = norm, .stream = RandomStream(7, "omega")});
  }
};

TEST_P(EveryProjection, FastEqualsDenseMatrix) {
  const Omega omega = Draw();
  const cpu::PackedOmega packed(omega);
  const int64_t d = omega.dim, m = omega.features;
  const std::vector<double> dense = reference::DenseRows(omega), x = RandomValues(kRows * d, 1);
  const std::vector<float> x_f32(x.begin(), x.end());
  std::vector<float> u(static_cast<size_t>(kRows * m));
  cpu::Project(packed, x_f32.data(), kRows, Context({.threads = 2}), u.data());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t r = 0; r < m; ++r) {
      double want = 0, size = 0;
      for (int64_t i = 0; i < d; ++i) {
        want += x[static_cast<size_t>(row * d + i)] * dense[static_cast<size_t>(r * d + i)];
        size += std::pow(x[static_cast<size_t>(row * d + i)], 2);
      }
      // 1e-6 of ‖ω_r‖‖x‖ ≈ √d·‖x‖.
      EXPECT_NEAR(u[static_cast<size_t>(row * m + r)], want,
                  1e-6 * std::sqrt(size * static_cast<double>(d)) + 1e-7);
    }
  }
}

TEST_P(EveryProjection, TransposeIsTheAdjoint) {
  const Omega omega = Draw();
  const cpu::PackedOmega packed(omega);
  const int64_t d = omega.dim, m = omega.features;
  const std::vector<double> x = RandomValues(kRows * d, 2), g = RandomValues(kRows * m, 3);
  std::vector<double> u(static_cast<size_t>(kRows * m)), back(static_cast<size_t>(kRows * d));
  reference::Project(omega, x.data(), kRows, u.data());
  reference::ProjectTranspose(omega, g.data(), kRows, back.data());
  double left = 0, right = 0;
  for (size_t i = 0; i < u.size(); ++i) left += u[i] * g[i];
  for (size_t i = 0; i < back.size(); ++i) right += back[i] * x[i];
  EXPECT_NEAR(left, right, 1e-9 * (1 + std::fabs(left)));

  const std::vector<float> g_f32(g.begin(), g.end());
  std::vector<float> back_f32(back.size());
  cpu::ProjectTranspose(packed, g_f32.data(), kRows, Context({.threads = 2}), back_f32.data());
  const double scale = std::sqrt(static_cast<double>(m * d));
  for (size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back_f32[i], back[i], 3e-6 * scale);
}

TEST_P(EveryProjection, GivesTheSameBitsForAnyNumberOfThreads) {
  const Omega omega = Draw();
  const cpu::PackedOmega packed(omega);
  const std::vector<double> x = RandomValues(200 * omega.dim, 4);
  const std::vector<float> x_f32(x.begin(), x.end());
  std::vector<float> one(static_cast<size_t>(200 * omega.features));
  cpu::Project(packed, x_f32.data(), 200, Context({.threads = 1}), one.data());
  for (const int threads : {2, 3, 8, 16}) {
    std::vector<float> many(one.size());
    cpu::Project(packed, x_f32.data(), 200, Context({.threads = threads}), many.data());
    EXPECT_EQ(one, many) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Projections, EveryProjection,
    testing::Combine(testing::Values("gaussian", "orthogonal", "hadamard", "givens", "none"),
                     testing::Values(1, 5, 16, 40, 64), testing::Values(1, 17, 64, 150)),
    [](const auto& test) {
      return std::get<0>(test.param) + "_d" + std::to_string(std::get<1>(test.param)) + "_m" +
             std::to_string(std::get<2>(test.param));
    });

}  // namespace
}  // namespace favor::kernels
