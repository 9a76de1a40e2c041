// Products of few rows on a GPU, which have a kernel of their own. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include "tests/kernels/cuda_matmul.h"

namespace favor::matmul_on_gpu {
namespace {

class CudaFewRows : public CudaMatmul {
 protected:
  // Runs body(), during which cuBLASLt must take nothing.
  template <class Body>
  static void WithoutHelp(const Body& body) {
    const int64_t taken = engine::products_by_library;
    body();
    EXPECT_EQ(engine::products_by_library, taken);
  }
};

// Columns of one warp, of two and of four, columns that leave warps of a block idle, and depths
// that leave lanes idle.
TEST_F(CudaFewRows, EqualTheReference) {
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : {Sizes{1, 1, 8},
                               {1, 8, 512},
                               {1, 258, 512},
                               {1, 512, 2048},
                               {1, 1537, 512},
                               {2, 2048, 512},
                               {3, 5, 24},
                               {4, 130, 520},
                               {5, 1100, 72},
                               {6, 7, 1000},
                               {7, 33, 2048},
                               {8, 300, 4096}}) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      WithoutHelp([&] {
        for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased})
          Expect(exact, types, mode, {}, {.by_columns = true}, {});
      });
      if (HasFatalFailure()) return;
    }
  }
}

// Rows that lie apart, at multiples of 16 bytes. Those of C lie anywhere.
TEST_F(CudaFewRows, MayLieApart) {
  for (const Types& types : kAllTypes) {
    const Sizes sizes{3, 70, 520};
    SCOPED_TRACE(Named(sizes, types));
    const Exact exact(sizes, types);
    WithoutHelp([&] {
      for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased}) {
        Expect(exact, types, mode, {.gap = 8, .offset = 16},
               {.by_columns = true, .gap = 24, .offset = 8}, {.gap = 5, .offset = 3});
      }
    });
    if (HasFatalFailure()) return;
  }
}

// The other kernels take packets that are cut, and more rows.
TEST_F(CudaFewRows, LeaveTheRestToOthers) {
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : {Sizes{9, 70, 512}, {2, 70, 510}, {8, 1, 3}, {1, 30, 1}}) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      WithEveryEngine([&] {
        for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased})
          Expect(exact, types, mode, {}, {.by_columns = true}, {});
      });
      if (HasFatalFailure()) return;
    }
  }
}

// The bits of a row do not depend on the rows next to it.
TEST_F(CudaFewRows, GiveEachRowTheSameBits) {
  for (const Types& types : kAllTypes) {
    for (const int64_t depth : {512, 4096}) {
      const Sizes sizes{8, 258, depth};
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      OnGpu a(exact.a, types.in), b(exact.b, types.in, {.by_columns = true}),
          bias(exact.bias, types.in), together(exact.before, types.out);
      Run(a, b, together, bias, Mode::kBiased);
      for (const int64_t count : {1, 2, 4}) {
        OnGpu apart(exact.before, types.out);
        for (int64_t row = 0; row < sizes.rows; row += count) {
          kernels::Matmul({.a = a.view().Range(0, row, count),
                           .b = b.view(),
                           .c = apart.view().Range(0, row, count),
                           .bias = bias.view().At(0)},
                          *context_);
        }
        context_->Wait();
        EXPECT_TRUE(apart.HasBitsOf(together)) << count;
      }
    }
  }
}

// f(C) is that of C as it was stored, and C is there too. Compilers may round f in other places.
TEST_F(CudaFewRows, AreFollowedByTheirFunction) {
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : {Sizes{1, 2048, 512}, {3, 70, 24}, {8, 258, 1032}}) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      for (const Activation f : {Activation::kGelu, Activation::kRelu, Activation::kGeluTanh}) {
        OnGpu a(exact.a, types.in), b(exact.b, types.in, {.by_columns = true}),
            bias(exact.bias, types.in), alone(exact.before, types.out), c(exact.before, types.out),
            y_alone(exact.before, types.out), y(exact.before, types.out);
        Run(a, b, alone, bias, Mode::kBiased);
        kernels::Activate({.f = f, .x = alone.view(), .y = y_alone.view()}, *context_);
        kernels::Matmul(
            {.a = a.view(),
             .b = b.view(),
             .c = c.view(),
             .bias = bias.view().At(0),
             .then = kernels::ActivationArguments{.f = f, .x = c.view(), .y = y.view()}},
            *context_);
        context_->Wait();
        EXPECT_TRUE(c.HasBitsOf(alone)) << static_cast<int>(f);
        const Tensor got = y.Read(), want = y_alone.Read();
        const double step = types.out == DataType::kBF16 ? 0x1p-7 : 0x1p-16;
        for (int64_t i = 0; i < got.shape().Elements(); ++i) {
          const double value = want.Data<double>()[i];
          ASSERT_NEAR(got.Data<double>()[i], value, step * std::fabs(value)) << i;
        }
      }
    }
  }
}

// a₀ = (1 … 8), a₁ = −a₀; columns (1 … 1) and (1 … 8); bias (1, −4).
TEST_F(CudaFewRows, EqualSumsByHand) {
  Tensor a({2, 8}, DataType::kF64), b({8, 2}, DataType::kF64), bias({1, 2}, DataType::kF64),
      before({2, 2}, DataType::kF64);
  for (int64_t k = 0; k < 8; ++k) {
    const auto number = static_cast<double>(k + 1);
    a.Data<double>()[k] = number;
    a.Data<double>()[8 + k] = -number;
    b.Data<double>()[2 * k] = 1;
    b.Data<double>()[2 * k + 1] = number;
  }
  bias.Data<double>()[0] = 1;
  bias.Data<double>()[1] = -4;
  constexpr double kProduct[] = {37, 200, -35, -208}, kPositive[] = {37, 200, 0, 0},
                   kOntoProduct[] = {73, 404, -71, -412};
  for (const Types& types : kAllTypes) {
    OnGpu a_there(a, types.in), b_there(b, types.in, {.by_columns = true}),
        bias_there(bias, types.in), c(before, types.out), y(before, types.out);
    kernels::Matmul(
        {.a = a_there.view(),
         .b = b_there.view(),
         .c = c.view(),
         .bias = bias_there.view().At(0),
         .then =
             kernels::ActivationArguments{.f = Activation::kRelu, .x = c.view(), .y = y.view()}},
        *context_);
    context_->Wait();
    const Tensor got_c = c.Read(), got_y = y.Read();
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(got_c.Data<double>()[i], kProduct[i]) << i;
      EXPECT_EQ(got_y.Data<double>()[i], kPositive[i]) << i;
    }
    kernels::Matmul({.a = a_there.view(), .b = b_there.view(), .c = c.view(), .add = true},
                    *context_);
    context_->Wait();
    const Tensor sum = c.Read();
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(sum.Data<double>()[i], kOntoProduct[i]) << i;
  }
}

TEST_F(CudaFewRows, GiveTheSameFromAGraph) {
  const Sizes sizes{1, 512, 2048};
  for (const Types& types : kAllTypes) {
    SCOPED_TRACE(Named(sizes, types));
    const Exact exact(sizes, types);
    OnGpu a(exact.a, types.in), b(exact.b, types.in, {.by_columns = true}),
        bias(exact.bias, types.in), first(exact.before, types.out), c(exact.before, types.out);
    Run(a, b, first, bias, Mode::kBiased);
    const DeviceGraph graph(*context_, [&] {
      kernels::Matmul({.a = a.view(), .b = b.view(), .c = c.view(), .bias = bias.view().At(0)},
                      *context_);
    });
    EXPECT_FALSE(c.HasBitsOf(first));
    for (int turn = 0; turn < 2; ++turn) {
      graph.Launch();
      context_->Wait();
      EXPECT_TRUE(c.HasBitsOf(first)) << turn;
    }
  }
}

}  // namespace
}  // namespace favor::matmul_on_gpu
