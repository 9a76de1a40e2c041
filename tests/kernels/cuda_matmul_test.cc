// Products on a GPU, by cuBLASLt and by kernels of our own, against plain loops in double of the
// same rounded inputs. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include "tests/kernels/cuda_matmul.h"

namespace favor::matmul_on_gpu {
namespace {

TEST_F(CudaMatmul, EverySizeEqualsTheReference) {
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : kAllSizes) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      WithEveryEngine([&] {
        for (const bool a : {false, true}) {
          for (const bool b : {false, true}) {
            for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased})
              Expect(exact, types, mode, {.by_columns = a}, {.by_columns = b}, {});
          }
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

// Rows that lie apart, at steps that are multiples of 16 bytes and at others, and arrays that begin
// anywhere. What lies between rows is NaN and stays so.
TEST_F(CudaMatmul, TakesRowsAtAnyAddress) {
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : {Sizes{64, 128, 256}, {65, 130, 1030}, {1, 40, 24}, {200, 1, 33}}) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      WithEveryEngine([&] {
        for (const Place& place : {Place{.gap = 8}, Place{.gap = 3}, Place{.offset = 1},
                                   Place{.offset = 8}, Place{.gap = 5, .offset = 3}}) {
          for (const bool columns : {false, true}) {
            Place turned = place;
            turned.by_columns = columns;
            for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased})
              Expect(exact, types, mode, turned, turned, place);
          }
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

// Neither rows nor columns are contiguous, or all rows are one.
TEST_F(CudaMatmul, TakesAnyStrides) {
  constexpr Sizes kSizes{70, 80, 90};
  for (const Types& types : kAllTypes) {
    const Exact exact(kSizes, types);
    // Every second element of a matrix of twice the depth.
    Tensor wide({kSizes.rows, 2 * kSizes.depth}, DataType::kF64);
    for (int64_t i = 0; i < kSizes.rows * kSizes.depth; ++i)
      wide.Data<double>()[2 * i] = exact.a.Data<double>()[i];
    OnGpu a(wide, types.in), b(exact.b, types.in), c(exact.before, types.out),
        one(exact.before, types.out);
    const View all = a.view();
    const ConstView second(all.data(), types.in, {kSizes.rows, kSizes.depth}, {2 * kSizes.depth, 2},
                           kGpu),
        first_row(all.data(), types.in, {kSizes.rows, kSizes.depth}, {0, 2}, kGpu);
    kernels::Matmul({.a = second, .b = b.view(), .c = c.view()}, *context_);
    kernels::Matmul({.a = first_row, .b = b.view(), .c = one.view()}, *context_);
    context_->Wait();
    const Tensor got = c.Read(), got_one = one.Read();
    for (int64_t i = 0; i < got.shape().Elements(); ++i) {
      const auto [value, error] = Expected(exact, types, Mode::kStored, i);
      ASSERT_NEAR(got.Data<double>()[i], value, error) << i;
      const auto first = Expected(exact, types, Mode::kStored, i % kSizes.columns);
      ASSERT_NEAR(got_one.Data<double>()[i], first.value, first.error) << i;
    }
  }
}

// An empty sum is 0, the bias, or what is there.
TEST_F(CudaMatmul, OfNothingIsZeroOrTheBias) {
  constexpr int64_t kRows = 130, kColumns = 9;
  for (const Types& types : kAllTypes) {
    const Tensor some = Draw(kRows, 4, "a", types.in), other = Draw(4, kColumns, "b", types.in),
                 before = Draw(kRows, kColumns, "before", types.out),
                 bias = Draw(1, kColumns, "bias", types.in);
    for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased}) {
      OnGpu a(some, types.in), b(other, types.in), c(before, types.out), add(bias, types.in);
      kernels::Matmul({.a = a.view().Range(1, 0, 0),
                       .b = b.view().Range(0, 0, 0),
                       .c = c.view(),
                       .add = mode == Mode::kAdded,
                       .bias = mode == Mode::kBiased ? ConstView(add.view().At(0)) : ConstView()},
                      *context_);
      kernels::Matmul({.a = a.view().Range(0, 0, 0), .b = b.view(), .c = c.view().Range(0, 0, 0)},
                      *context_);
      context_->Wait();
      const Tensor got = c.Read();
      for (int64_t i = 0; i < kRows * kColumns; ++i) {
        const double want = mode == Mode::kAdded    ? before.Data<double>()[i]
                            : mode == Mode::kBiased ? bias.Data<double>()[i % kColumns]
                                                    : 0;
        ASSERT_EQ(got.Data<double>()[i], want) << i;
      }
    }
  }
}

struct Epilogues {
  View c, y;
  ConstView x, residual;

  std::vector<kernels::MatmulEpilogue> All() const {
    return {
        kernels::ActivationArguments{.f = Activation::kGelu, .x = c, .y = y},
        kernels::ActivationArguments{.f = Activation::kRelu, .x = c, .y = y},
        kernels::ActivationGradients{
            .f = Activation::kGeluTanh, .x = x, .grad_y = c, .grad_x = c, .y = y},
        kernels::ActivationGradients{.f = Activation::kRelu, .x = x, .grad_y = c, .grad_x = c},
        kernels::DropoutArguments{.x = c, .residual = residual, .share = 0.3, .seed = 5, .y = c},
        kernels::DropoutArguments{.x = c, .residual = residual, .share = 0.3, .seed = 5, .y = y},
        kernels::DropoutArguments{.x = c, .residual = residual, .y = c},
        kernels::DropoutArguments{.x = c, .residual = residual, .y = y}};
  }
};

void RunAlone(const kernels::MatmulEpilogue& then, const Context& context) {
  if (const auto* f = std::get_if<kernels::ActivationArguments>(&then))
    kernels::Activate(*f, context);
  if (const auto* g = std::get_if<kernels::ActivationGradients>(&then))
    kernels::ActivateBackward(*g, context);
  if (const auto* d = std::get_if<kernels::DropoutArguments>(&then)) kernels::Dropout(*d, context);
}

// Errors of the product pass through slopes of at most 1.13, and factors of 1/0.7 of dropout.
TEST_F(CudaMatmul, IsFollowedByAnOperation) {
  const Context cpu;
  for (const Types& types : {kAllTypes[0], kAllTypes[1]}) {
    for (const Sizes& sizes : {Sizes{65, 33, 130}, {200, 256, 512}, {1, 256, 512}, {5, 33, 128}}) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      const Shape shape{sizes.rows, sizes.columns};
      const Tensor x = Draw(sizes.rows, sizes.columns, "x", types.out),
                   residual = Draw(sizes.rows, sizes.columns, "residual", types.out),
                   zeros(shape, DataType::kF64);
      for (size_t which = 0; which < 8; ++which) {
        Tensor want_c(shape, DataType::kF64), want_y(shape, DataType::kF64);
        kernels::Matmul({.a = exact.a, .b = exact.b, .c = want_c, .bias = exact.bias.view().At(0)},
                        cpu);
        RunAlone(Epilogues{want_c, want_y, x, residual}.All()[which], cpu);
        WithEveryEngine([&] {
          OnGpu a(exact.a, types.in), b(exact.b, types.in, {.by_columns = true}),
              bias(exact.bias, types.in), c(zeros, types.out), y(zeros, types.out),
              x_there(x, types.out), residual_there(residual, types.out);
          kernels::Matmul(
              {.a = a.view(),
               .b = b.view(),
               .c = c.view(),
               .bias = bias.view().At(0),
               .then = Epilogues{c.view(), y.view(), x_there.view(), residual_there.view()}
                           .All()[which]},
              *context_);
          context_->Wait();
          const Tensor got_c = c.Read(), got_y = y.Read();
          const double rounding = types.out == DataType::kBF16 ? 0x1p-7 : 0x1p-20;
          for (int64_t i = 0; i < shape.Elements(); ++i) {
            const Bounded expected = Expected(exact, types, Mode::kBiased, i);
            const auto bound = [&](double result) {
              return 2 * expected.error +
                     rounding * (std::fabs(expected.value) + std::fabs(result));
            };
            const double for_c = want_c.Data<double>()[i], for_y = want_y.Data<double>()[i];
            ASSERT_NEAR(got_c.Data<double>()[i], for_c, bound(for_c)) << which << " " << i;
            ASSERT_NEAR(got_y.Data<double>()[i], for_y, bound(for_y)) << which << " " << i;
          }
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Products that layers make must not end up in the slower kernels unseen.
TEST_F(CudaMatmul, GivesTheLibraryWhatLayersMultiply) {
  if (!HasLibrary()) GTEST_SKIP() << "no cuBLASLt on this machine";
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : {Sizes{512, 512, 256}, {256, 258, 512}, {9, 512, 512}}) {
      const Exact exact(sizes, types);
      for (const Mode mode : {Mode::kStored, Mode::kAdded, Mode::kBiased}) {
        if (mode == Mode::kBiased && types.in != types.out) continue;
        SCOPED_TRACE(Named(sizes, types) + " mode " + std::to_string(static_cast<int>(mode)));
        const int64_t taken = engine::products_by_library;
        Expect(exact, types, mode, {}, {.by_columns = true}, {});
        EXPECT_EQ(engine::products_by_library, taken + 2);
      }
    }
  }
}

TEST_F(CudaMatmul, GivesTheSameFromAGraph) {
  for (const Types& types : kAllTypes) {
    for (const Sizes& sizes : {Sizes{65, 130, 5000}, {256, 256, 512}}) {
      SCOPED_TRACE(Named(sizes, types));
      const Exact exact(sizes, types);
      WithEveryEngine([&] {
        OnGpu a(exact.a, types.in), b(exact.b, types.in), bias(exact.bias, types.in),
            first(exact.before, types.out), c(exact.before, types.out);
        Run(a, b, first, bias, Mode::kBiased);
        const DeviceGraph graph(*context_, [&] {
          kernels::Matmul(
              {.a = a.view(), .b = b.view(), .c = c.view(), .bias = ConstView(bias.view().At(0))},
              *context_);
        });
        EXPECT_FALSE(c.HasBitsOf(first));
        for (int turn = 0; turn < 2; ++turn) {
          graph.Launch();
          context_->Wait();
          EXPECT_TRUE(c.HasBitsOf(first)) << turn;
        }
      });
    }
  }
}

TEST_F(CudaMatmul, RefusesOtherTypes) {
  const Tensor a({4, 4}, DataType::kF32, kGpu), b({4, 4}, DataType::kBF16, kGpu);
  Tensor c({4, 4}, DataType::kF32, kGpu);
  try {
    kernels::Matmul({a, b, c}, *context_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_STREQ(error.what(),
                 "matmul: given f32 by bf16 to f32 arrays on cuda:0, expected f32 or bf16, and a "
                 "result of that type or f32");
  }
}

}  // namespace
}  // namespace favor::matmul_on_gpu
