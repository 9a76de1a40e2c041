// Products of matrices: the fast kernels against plain loops in double, for all shapes of edges.
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "favor/random.h"

namespace favor {
namespace {

Tensor Random(int64_t rows, int64_t columns, const char* name) {
  Tensor tensor({rows, columns});
  const RandomStream stream(1, name);
  for (int64_t i = 0; i < rows * columns; ++i)
    tensor.Data<float>()[i] = static_cast<float>(stream.Normal(static_cast<uint64_t>(i)));
  return tensor;
}

struct MatmulCase {
  int64_t rows, columns, depth;
};

void ExpectNear(const Tensor& f32, const Tensor& f64, double tolerance, const std::string& what) {
  double worst = 0;
  for (int64_t i = 0; i < f32.shape().Elements(); ++i)
    worst = std::max(worst, std::fabs(f32.Data<float>()[i] - f64.Data<double>()[i]));
  EXPECT_LT(worst, tolerance) << what;
}

// An empty sum is 0, or leaves what is there; no rows are no work.
TEST(MatmulOfNothing, IsZeroOrTheBias) {
  const Context context({.threads = 1});
  const Tensor a = Random(40, 4, "a"), b = Random(4, 9, "b");
  Tensor bias({9});
  for (int64_t i = 0; i < 9; ++i) bias.Data<float>()[i] = static_cast<float>(i) - 3;
  const ConstView none_a = a.view().Range(1, 0, 0), none_b = b.view().Range(0, 0, 0);
  Tensor c = Random(40, 9, "c");
  const Tensor before = c.Clone();
  kernels::Matmul({.a = none_a, .b = none_b, .c = c, .add = true}, context);
  EXPECT_EQ(std::memcmp(c.view().data(), before.view().data(), 40 * 9 * 4), 0);
  kernels::Matmul({.a = a.view().Range(0, 0, 0), .b = b, .c = c.view().Range(0, 0, 0)}, context);
  EXPECT_EQ(std::memcmp(c.view().data(), before.view().data(), 40 * 9 * 4), 0);
  kernels::Matmul({.a = none_a, .b = none_b, .c = c, .bias = bias}, context);
  for (int64_t i = 0; i < 40 * 9; ++i) EXPECT_EQ(c.Data<float>()[i], bias.Data<float>()[i % 9]);
  kernels::Matmul({.a = none_a, .b = none_b, .c = c}, context);
  for (int64_t i = 0; i < 40 * 9; ++i) EXPECT_EQ(c.Data<float>()[i], 0);
}

class MatmulTest : public testing::TestWithParam<MatmulCase> {};

TEST_P(MatmulTest, FastEqualsReference) {
  const auto [rows, columns, depth] = GetParam();
  const Context context({.threads = 2});
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool add : {false, true}) {
        const Tensor a = transpose_a ? Random(depth, rows, "a") : Random(rows, depth, "a");
        const Tensor b = transpose_b ? Random(columns, depth, "b") : Random(depth, columns, "b");
        Tensor c = Random(rows, columns, "c");
        const Tensor a64 = a.To(DataType::kF64), b64 = b.To(DataType::kF64);
        Tensor c64 = c.To(DataType::kF64);
        const auto run = [&](const Tensor& x, const Tensor& y, View z) {
          kernels::Matmul({transpose_a ? kernels::Transposed(x) : ConstView(x),
                           transpose_b ? kernels::Transposed(y) : ConstView(y), z, add},
                          context);
        };
        run(a, b, c);
        run(a64, b64, c64);
        double worst = 0;
        for (int64_t i = 0; i < rows * columns; ++i)
          worst = std::max(worst, std::fabs(c.Data<float>()[i] - c64.Data<double>()[i]));
        EXPECT_LT(worst, 1e-6 * std::sqrt(static_cast<double>(depth)) * 10)
            << transpose_a << transpose_b << add;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MatmulTest,
    testing::Values(MatmulCase{1, 1, 1}, MatmulCase{1, 701, 517}, MatmulCase{3, 9, 31},
                    MatmulCase{4, 130, 2048}, MatmulCase{7, 5, 3}, MatmulCase{6, 16, 64},
                    MatmulCase{13, 33, 65}, MatmulCase{200, 258, 130}, MatmulCase{17, 300, 64},
                    MatmulCase{193, 16, 200}, MatmulCase{256, 35, 90}, MatmulCase{384, 35, 600},
                    MatmulCase{10, 20, 5000}, MatmulCase{64, 64, 2048},
                    // Packed in two chunks of the sum, the last shorter than a piece.
                    MatmulCase{10, 20, 70100},
                    // Tasks by rows: rows of A read in place and copied.
                    MatmulCase{800, 90, 77}, MatmulCase{1601, 35, 512}, MatmulCase{777, 300, 530}));

// A B that is too large for one copy gives the bits of its two halves, which are not.
TEST(Matmul, OfALargeMatrixIsThatOfItsParts) {
  constexpr int64_t kRows = 770, kColumns = 2100, kDepth = 2001, kHalf = 1040;
  const Context context({.threads = 2});
  const Tensor a = Random(kRows, kDepth, "a");
  for (const bool transposed : {false, true}) {
    const Tensor b = transposed ? Random(kColumns, kDepth, "b") : Random(kDepth, kColumns, "b");
    const ConstView all = transposed ? kernels::Transposed(b) : ConstView(b);
    Tensor whole({kRows, kColumns}), parts({kRows, kColumns});
    kernels::Matmul({a, all, whole}, context);
    for (const auto& [begin, count] : {std::pair{int64_t{0}, kHalf}, {kHalf, kColumns - kHalf}})
      kernels::Matmul({a, all.Range(1, begin, count), parts.view().Range(1, begin, count)},
                      context);
    EXPECT_EQ(0, std::memcmp(whole.Data<float>(), parts.Data<float>(),
                             static_cast<size_t>(whole.Bytes())))
        << transposed;
  }
}

// A sum that is too long for one copy of B is that of its two halves.
TEST(Matmul, OfALongSumIsThatOfItsParts) {
  constexpr int64_t kRows = 780, kColumns = 260, kDepth = 8300, kHalf = 4100;
  const Context context({.threads = 2});
  const Tensor b = Random(kDepth, kColumns, "b");
  for (const bool transposed : {false, true}) {
    const Tensor stored = transposed ? Random(kDepth, kRows, "a") : Random(kRows, kDepth, "a");
    const ConstView a = transposed ? kernels::Transposed(stored) : ConstView(stored);
    Tensor whole({kRows, kColumns}), parts({kRows, kColumns});
    kernels::Matmul({a, b, whole}, context);
    kernels::Matmul({a.Range(1, 0, kHalf), b.view().Range(0, 0, kHalf), parts}, context);
    kernels::Matmul({a.Range(1, kHalf, kDepth - kHalf), b.view().Range(0, kHalf, kDepth - kHalf),
                     parts, /*add=*/true},
                    context);
    ExpectNear(whole, parts.To(DataType::kF64), 1e-3, transposed ? "transposed" : "");
  }
}

TEST(Matmul, SameBitsForAnyNumberOfThreads) {
  const Tensor a = Random(3000, 70, "a"), b = Random(3000, 50, "b");
  Tensor first({70, 50});
  for (const int threads : {1, 2, 3, 8}) {
    const Context context({.threads = threads});
    Tensor c({70, 50});
    kernels::Matmul({kernels::Transposed(a), b, c}, context);
    if (threads == 1) {
      first = c.Clone();
    } else {
      EXPECT_EQ(0, std::memcmp(c.Data<float>(), first.Data<float>(), 70 * 50 * sizeof(float)));
    }
  }
}

TEST(Matmul, AddsABiasToEveryRow) {
  const Context context({.threads = 2});
  for (const auto& [rows, columns, depth] :
       {MatmulCase{2, 33, 65}, {13, 33, 65}, {10, 20, 5000}, {800, 35, 90}, {800, 300, 600}}) {
    // Transposed, as layers have their weights.
    const Tensor a = Random(rows, depth, "a"), weights = Random(columns, depth, "b");
    const ConstView b = kernels::Transposed(weights);
    const Tensor bias = Random(1, columns, "bias");
    Tensor plain({rows, columns}), with({rows, columns});
    kernels::Matmul({a, b, plain}, context);
    kernels::Matmul({.a = a, .b = b, .c = with, .bias = bias.view().At(0)}, context);
    for (int64_t i = 0; i < rows * columns; ++i) {
      EXPECT_NEAR(with.Data<float>()[i], plain.Data<float>()[i] + bias.Data<float>()[i % columns],
                  1e-4);
    }
  }
}

// Sizes for each way to a product: a few rows; blocks of rows and columns; pieces of the sum; tasks
// by rows with A in place and packed; and edges that are not whole vectors.
const std::vector<MatmulCase> kWays = {{3, 33, 65},     {13, 35, 65},   {200, 258, 130},
                                       {10, 20, 5000},  {800, 35, 90},  {800, 300, 600},
                                       {1601, 66, 300}, {777, 300, 530}};

struct Epilogues {
  View c, y;
  ConstView x, residual;

  std::vector<kernels::MatmulEpilogue> All() const {
    return {
        kernels::ActivationArguments{.f = Activation::kGelu, .x = c, .y = y},
        kernels::ActivationGradients{
            .f = Activation::kGeluTanh, .x = x, .grad_y = c, .grad_x = c, .y = y},
        kernels::ActivationGradients{.f = Activation::kRelu, .x = x, .grad_y = c, .grad_x = c},
        kernels::DropoutArguments{.x = c, .residual = residual, .share = 0.3, .seed = 5, .y = c},
        kernels::DropoutArguments{.x = c, .residual = residual, .y = c}};
  }
};

// What follows a product gives what the operation gives on the whole result, in double.
TEST(Matmul, IsFollowedByAnOperation) {
  const Context context({.threads = 2});
  for (const auto& [rows, columns, depth] : kWays) {
    for (const bool transposed : {false, true}) {
      for (size_t which = 0; which < 5; ++which) {
        const std::string what = std::to_string(rows) + "x" + std::to_string(columns) + "x" +
                                 std::to_string(depth) + (transposed ? " transposed " : " ") +
                                 std::to_string(which);
        const Tensor a = transposed ? Random(depth, rows, "a") : Random(rows, depth, "a");
        const Tensor weights = Random(columns, depth, "b"), bias = Random(1, columns, "bias"),
                     x = Random(rows, columns, "x"), residual = Random(rows, columns, "residual");
        Tensor c({rows, columns}), y({rows, columns});
        const Tensor a64 = a.To(DataType::kF64), weights64 = weights.To(DataType::kF64),
                     bias64 = bias.To(DataType::kF64), x64 = x.To(DataType::kF64),
                     residual64 = residual.To(DataType::kF64);
        Tensor c64({rows, columns}, DataType::kF64), y64({rows, columns}, DataType::kF64);
        kernels::Matmul({.a = transposed ? kernels::Transposed(a) : ConstView(a),
                         .b = kernels::Transposed(weights),
                         .c = c,
                         .bias = bias.view().At(0),
                         .then = Epilogues{c, y, x, residual}.All()[which]},
                        context);
        kernels::Matmul({.a = transposed ? kernels::Transposed(a64) : ConstView(a64),
                         .b = kernels::Transposed(weights64),
                         .c = c64,
                         .bias = bias64.view().At(0)},
                        context);
        const kernels::MatmulEpilogue then = Epilogues{c64, y64, x64, residual64}.All()[which];
        if (const auto* f = std::get_if<kernels::ActivationArguments>(&then))
          kernels::Activate(*f, context);
        if (const auto* g = std::get_if<kernels::ActivationGradients>(&then))
          kernels::ActivateBackward(*g, context);
        if (const auto* d = std::get_if<kernels::DropoutArguments>(&then))
          kernels::Dropout(*d, context);
        const double tolerance = 2e-5 * std::sqrt(static_cast<double>(depth));
        ExpectNear(c, c64, tolerance, what);
        ExpectNear(y, y64, tolerance, what);
      }
    }
  }
}

// The reference runs what follows, too: one element by hand, f(2·3 + 1) and 4 + (2·3 + 1)·f'(−1).
TEST(Matmul, IsFollowedByAnOperationInDouble) {
  const Context context({.threads = 1});
  const double two = 2, three = 3, one = 1, minus = -1, four = 4;
  const Shape shape{1, 1};
  double c = 0, y = 0;
  const auto run = [&](const kernels::MatmulEpilogue& then) {
    kernels::Matmul({.a = ConstView(&two, shape),
                     .b = ConstView(&three, shape),
                     .c = View(&c, shape),
                     .bias = ConstView(&one, {1}),
                     .then = then},
                    context);
  };
  run(kernels::ActivationArguments{
      .f = Activation::kRelu, .x = ConstView(&c, shape), .y = View(&y, shape)});
  EXPECT_EQ(y, 7);
  run(kernels::ActivationGradients{.f = Activation::kGelu,
                                   .x = ConstView(&minus, shape),
                                   .grad_y = ConstView(&c, shape),
                                   .grad_x = View(&c, shape),
                                   .y = View(&y, shape)});
  EXPECT_NEAR(c, 7 * -0.0833154705876, 1e-12);  // Φ(−1) − φ(−1)
  EXPECT_NEAR(y, -0.158655253931457, 1e-12);    // −Φ(−1)
  run(kernels::DropoutArguments{
      .x = ConstView(&c, shape), .residual = ConstView(&four, shape), .y = View(&c, shape)});
  EXPECT_EQ(c, 11);
}

// If rows of C are not contiguous, as in a part of a wider matrix, what is between them stays
// unchanged.
TEST(Matmul, LeavesWhatIsBetweenRows) {
  const Context context({.threads = 1});
  const Tensor a = Random(9, 20, "a"), b = Random(20, 18, "b");
  Tensor wide({9, 40});
  std::fill_n(wide.Data<float>(), 9 * 40, 5.0f);
  kernels::Matmul({a, b, wide.view().Range(1, 4, 18)}, context);
  for (int64_t row = 0; row < 9; ++row) {
    for (int64_t column = 0; column < 40; ++column) {
      if (column < 4 || column >= 22) {
        EXPECT_EQ(wide.Data<float>()[row * 40 + column], 5.0f) << row << " " << column;
      }
    }
  }
}

}  // namespace
}  // namespace favor
