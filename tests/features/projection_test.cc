// What the rows of a drawn ω look like.
#include "features/projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "favor/error.h"

namespace favor {
namespace {

Tensor DrawOmega(const std::string& projection, OmegaNorm norm, int64_t d, int64_t m,
                 uint64_t seed = 1, uint64_t redraw = 0, int64_t heads = 1, bool shared = false) {
  return FeaturePlan::Draw(
             {.projection = projection, .features = m, .omega_norm = norm, .shared_omega = shared},
             heads, d, seed, redraw)
      .Omega();
}

double Dot(const float* a, const float* b, int64_t d) {
  double sum = 0;
  for (int64_t i = 0; i < d; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(Orthogonal, RowsOfABlockAreOrthogonalAndBlocksAreNot) {
  const int64_t d = 24, m = 60;
  const Tensor omega = DrawOmega("orthogonal", OmegaNorm::kSqrtD, d, m);
  const float* rows = omega.Data<float>();
  bool blocks_differ = false;
  for (int64_t a = 0; a < m; ++a) {
    EXPECT_NEAR(Dot(rows + a * d, rows + a * d, d), static_cast<double>(d), 1e-4);
    for (int64_t b = 0; b < a; ++b) {
      const double dot = Dot(rows + a * d, rows + b * d, d);
      if (a / d == b / d) {
        EXPECT_NEAR(dot, 0, 1e-5 * static_cast<double>(d)) << a << " " << b;
      } else {
        blocks_differ = blocks_differ || std::fabs(dot) > 1;
      }
    }
  }
  EXPECT_TRUE(blocks_differ);
}

// Rows of a power-of-two Hadamard or Givens block are exactly orthogonal too.
TEST(Structured, RowsOfABlockAreOrthogonal) {
  for (const char* name : {"hadamard", "givens"}) {
    const int64_t d = 32;
    const Tensor omega = DrawOmega(name, OmegaNorm::kSqrtD, d, d);
    for (int64_t a = 0; a < d; ++a) {
      for (int64_t b = 0; b <= a; ++b) {
        const double dot = Dot(omega.Data<float>() + a * d, omega.Data<float>() + b * d, d);
        EXPECT_NEAR(dot, a == b ? static_cast<double>(d) : 0, 1e-4) << name;
      }
    }
  }
}

TEST(RowLengths, AreChiOrSqrtOfTheDrawnDimension) {
  const int64_t m = 20000;
  for (const char* name : {"gaussian", "orthogonal", "hadamard", "givens"}) {
    const int64_t d = 6,
                  padded = std::string(name) == "hadamard" || std::string(name) == "givens" ? 8 : 6;
    const kernels::Omega omega =
        features::FindProjection(name).draw({.features = m,
                                             .dim = padded,
                                             .norm = OmegaNorm::kChi,
                                             .stream = RandomStream(1, "lengths")});
    // Padded: lengths are those of the 8-dimensional rows; their truncation to 6 has mean square 6.
    const Tensor truncated = DrawOmega(name, OmegaNorm::kChi, d, m);
    double square = 0;
    for (int64_t r = 0; r < m; ++r)
      square += Dot(truncated.Data<float>() + r * d, truncated.Data<float>() + r * d, d);
    EXPECT_NEAR(square / static_cast<double>(m), 6, 4.5 * std::sqrt(16.0 / static_cast<double>(m)))
        << name;
    EXPECT_EQ(features::FindProjection(name).omega_dim(d), padded);
    EXPECT_EQ(omega.features, m);
  }
}

// With √d lengths every row has one, the last of a block that is cut off too.
TEST(RowLengths, OfSqrtDAreThoseOfEveryRow) {
  for (const char* name : {"gaussian", "orthogonal", "hadamard", "givens"}) {
    const Tensor omega = DrawOmega(name, OmegaNorm::kSqrtD, 8, 11);
    for (int64_t row = 0; row < 11; ++row) {
      const float* values = omega.Data<float>() + row * 8;
      EXPECT_NEAR(Dot(values, values, 8), 8, 1e-4) << name << " " << row;
    }
  }
}

// Lengths of neighbouring rows have nothing to do with each other: five standard errors of their
// correlation.
TEST(RowLengths, AreIndependent) {
  constexpr int64_t kRows = 8000, kDim = 8;
  for (const char* name : {"gaussian", "orthogonal", "hadamard", "givens"}) {
    const Tensor omega = DrawOmega(name, OmegaNorm::kChi, kDim, kRows);
    const auto deviation = [&](int64_t row) {  // of a square of mean d and variance 2d
      const float* values = omega.Data<float>() + row * kDim;
      return (Dot(values, values, kDim) - kDim) / std::sqrt(2.0 * kDim);
    };
    double correlation = 0, variance = 0;
    for (int64_t row = 0; row + 1 < kRows; ++row) {
      correlation += deviation(row) * deviation(row + 1) / kRows;
      variance += deviation(row) * deviation(row) / kRows;
    }
    EXPECT_NEAR(variance, 1, 0.1) << name;
    EXPECT_NEAR(correlation, 0, 5 / std::sqrt(static_cast<double>(kRows))) << name;
  }
}

TEST(Draw, IsAPureFunctionOfSeedHeadAndRedraw) {
  for (const ProjectionInfo& projection : Projections()) {
    if (projection.name == "none") continue;
    const std::string name(projection.name);
    const auto same = [&](const Tensor& a, const Tensor& b) {
      return std::memcmp(a.Data<float>(), b.Data<float>(), static_cast<size_t>(a.Bytes())) == 0;
    };
    const Tensor base = DrawOmega(name, OmegaNorm::kChi, 16, 40);
    EXPECT_TRUE(same(base, DrawOmega(name, OmegaNorm::kChi, 16, 40)));
    EXPECT_FALSE(same(base, DrawOmega(name, OmegaNorm::kChi, 16, 40, 2)));
    EXPECT_FALSE(same(base, DrawOmega(name, OmegaNorm::kChi, 16, 40, 1, 1)));
    const Tensor heads = DrawOmega(name, OmegaNorm::kChi, 16, 40, 1, 0, 3);
    EXPECT_EQ(heads.shape(), (Shape{3, 40, 16}));
    EXPECT_EQ(
        std::memcmp(heads.Data<float>(), base.Data<float>(), static_cast<size_t>(base.Bytes())), 0);
    EXPECT_NE(std::memcmp(heads.Data<float>() + 640, base.Data<float>(),
                          static_cast<size_t>(base.Bytes())),
              0);
    EXPECT_EQ(DrawOmega(name, OmegaNorm::kChi, 16, 40, 1, 0, 3, true).shape(), (Shape{40, 16}));
    // More features continue the draw.
    const Tensor longer = DrawOmega(name, OmegaNorm::kChi, 16, 50);
    EXPECT_EQ(
        std::memcmp(longer.Data<float>(), base.Data<float>(), static_cast<size_t>(base.Bytes())), 0)
        << name;
  }
}

TEST(Names, UnknownOnesAreAnsweredWithTheNearest) {
  try {
    FeaturePlan::Draw({.projection = "orthgonal"}, 1, 8, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_NE(std::string(error.what()).find("did you mean 'orthogonal'?"), std::string::npos);
  }
}

}  // namespace
}  // namespace favor
