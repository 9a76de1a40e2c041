// Products on a GPU, by cuBLASLt and by kernels of our own, against plain loops in double of the
// same rounded inputs. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/device.h"
#include "core/device_graph.h"
#include "core/shared_library.h"
#include "favor/error.h"
#include "favor/random.h"
#include "kernels/cuda/matmul/library.h"
#include "kernels/matmul.h"

namespace favor {
namespace {

namespace engine = kernels::cuda::matmul_library;

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

bool HasLibrary() {
  try {
    CublasLt();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Products run on kernels of our own alone, during the life of this object.
class WithoutLibrary {
 public:
  WithoutLibrary() { engine::library_is_used = false; }
  ~WithoutLibrary() { engine::library_is_used = true; }
  WithoutLibrary(const WithoutLibrary&) = delete;
  WithoutLibrary& operator=(const WithoutLibrary&) = delete;
};

struct Types {
  DataType in, out;
};
constexpr Types kAllTypes[] = {{DataType::kF32, DataType::kF32},
                               {DataType::kBF16, DataType::kBF16},
                               {DataType::kBF16, DataType::kF32}};

struct Sizes {
  int64_t rows, columns, depth;
};
// Tiles that are full and not, one row, one column, and sums that are cut into pieces.
constexpr Sizes kAllSizes[] = {{1, 1, 1},    {1, 300, 64},  {300, 1, 7},      {7, 65, 300},
                               {65, 7, 1},   {64, 64, 64},  {65, 300, 65},    {300, 64, 7},
                               {1, 7, 1000}, {128, 128, 1}, {129, 130, 3000}, {1000, 258, 512}};

std::string Named(const Sizes& s, const Types& types) {
  return std::to_string(s.rows) + "x" + std::to_string(s.columns) + "x" + std::to_string(s.depth) +
         " " + std::string(Name(types.in)) + " to " + std::string(Name(types.out));
}

// Numbers of N(0, 1), rounded to a type, as doubles.
Tensor Draw(int64_t rows, int64_t columns, const char* name, DataType type) {
  Tensor exact({rows, columns}, DataType::kF64);
  std::vector<double> drawn(static_cast<size_t>(rows * columns));
  RandomStream(13, name).FillNormal(0, drawn);
  std::ranges::copy(drawn, exact.Data<double>());
  return exact.To(type).To(DataType::kF64);
}

// How a matrix lies in memory: by rows or by columns, which begin `gap` elements after the end of
// the one before, the first `offset` elements into the memory.
struct Place {
  bool by_columns = false;
  int64_t gap = 0, offset = 0;
};

// A matrix on the GPU in memory that is NaN everywhere else.
class OnGpu {
 public:
  OnGpu(const Tensor& exact, DataType type, const Place& place = {})
      : rows_(exact.shape()[0]), columns_(exact.shape()[1]), type_(type), place_(place) {
    const int64_t length = place.by_columns ? rows_ : columns_,
                  count = place.by_columns ? columns_ : rows_, step = length + place.gap;
    strides_ = place.by_columns ? Strides{1, step} : Strides{step, 1};
    Tensor host({place.offset + count * step}, DataType::kF64);
    std::fill_n(host.Data<double>(), host.shape().Elements(), kNoNumber);
    for (int64_t i = 0; i < rows_ * columns_; ++i)
      host.Data<double>()[At(i)] = exact.Data<double>()[i];
    memory_ = host.To(type).To(kGpu);
  }

  View view() {
    auto* first = memory_.view().data();
    return {static_cast<std::byte*>(first) + place_.offset * ItemBytes(type_),
            type_,
            {rows_, columns_},
            strides_,
            kGpu};
  }

  // The numbers on the CPU. What lies around them must be as it was.
  Tensor Read() const {
    const Tensor host = memory_.To(Device{}).To(DataType::kF64);
    Tensor exact({rows_, columns_}, DataType::kF64);
    int64_t numbers = 0;
    for (int64_t i = 0; i < rows_ * columns_; ++i) {
      exact.Data<double>()[i] = host.Data<double>()[At(i)];
      numbers += std::isnan(exact.Data<double>()[i]) ? 0 : 1;
    }
    for (int64_t i = 0; i < host.shape().Elements(); ++i)
      numbers -= std::isnan(host.Data<double>()[i]) ? 0 : 1;
    EXPECT_EQ(numbers, 0) << "written outside the matrix";
    return exact;
  }
  bool HasBitsOf(const OnGpu& other) const {
    const Tensor a = memory_.To(Device{}), b = other.memory_.To(Device{});
    return std::memcmp(a.view().data(), b.view().data(), static_cast<size_t>(a.Bytes())) == 0;
  }

 private:
  int64_t At(int64_t i) const {
    return place_.offset + i / columns_ * strides_[0] + i % columns_ * strides_[1];
  }

  int64_t rows_, columns_;
  DataType type_;
  Place place_;
  Strides strides_;
  Tensor memory_;
};

// a·b in double, and the sum of the sizes of its terms, which rounding is relative to.
struct Exact {
  Exact(const Sizes& s, const Types& types)
      : a(Draw(s.rows, s.depth, "a", types.in)),
        b(Draw(s.depth, s.columns, "b", types.in)),
        bias(Draw(1, s.columns, "bias", types.in)),
        before(Draw(s.rows, s.columns, "before", types.out)),
        product({s.rows, s.columns}, DataType::kF64),
        size({s.rows, s.columns}, DataType::kF64) {
    const Context cpu;
    kernels::Matmul({a, b, product}, cpu);
    kernels::Matmul({SizesOf(a), SizesOf(b), size}, cpu);
  }

  Tensor a, b, bias, before, product, size;

 private:
  static Tensor SizesOf(const Tensor& x) {
    Tensor sizes = x.Clone();
    for (int64_t i = 0; i < x.shape().Elements(); ++i)
      sizes.Data<double>()[i] = std::fabs(sizes.Data<double>()[i]);
    return sizes;
  }
};

enum class Mode { kStored, kAdded, kBiased };

// What c must be, and how far it may be off.
struct Bounded {
  double value, error;
};

// A term is rounded once, and a sum once for each term; tensor cores cut digits off, which is up to
// twice a rounding, and keep fewer digits of the smaller terms of sixteen. bf16 has 8 bits, and
// some kernels of cuBLASLt round the product to it before they add to it.
Bounded Expected(const Exact& exact, const Types& types, Mode mode, int64_t i) {
  const int64_t columns = exact.product.shape()[1];
  const double more = mode == Mode::kAdded    ? exact.before.Data<double>()[i]
                      : mode == Mode::kBiased ? exact.bias.Data<double>()[i % columns]
                                              : 0;
  const auto depth = static_cast<double>(exact.a.shape()[1]);
  const double unit = types.in == DataType::kF32 ? 0x1p-24 : 0x1p-22;
  const double value = exact.product.Data<double>()[i] + more;
  double error = (depth + 4) * unit * (exact.size.Data<double>()[i] + std::fabs(more));
  if (types.out == DataType::kBF16) {
    error += 0x1p-8 * std::fabs(value);
    if (mode != Mode::kStored) error += 0x1p-8 * std::fabs(exact.product.Data<double>()[i]);
  }
  return {value, error};
}

class CudaMatmul : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    context_.emplace(ContextOptions{.device = kGpu});
  }

  // Runs body() with cuBLASLt, if there is one, and without.
  template <class Body>
  static void WithEveryEngine(const Body& body) {
    if (HasLibrary()) {
      SCOPED_TRACE("cuBLASLt");
      body();
    }
    SCOPED_TRACE("own kernels");
    const WithoutLibrary own;
    body();
  }

  void Run(OnGpu& a, OnGpu& b, OnGpu& c, OnGpu& bias, Mode mode) const {
    kernels::Matmul({.a = a.view(),
                     .b = b.view(),
                     .c = c.view(),
                     .add = mode == Mode::kAdded,
                     .bias = mode == Mode::kBiased ? ConstView(bias.view().At(0)) : ConstView()},
                    *context_);
    context_->Wait();
  }

  // One product, twice: right, and the same bits.
  void Expect(const Exact& exact, const Types& types, Mode mode, const Place& of_a,
              const Place& of_b, const Place& of_c) const {
    OnGpu a(exact.a, types.in, of_a), b(exact.b, types.in, of_b),
        bias(exact.bias, types.in, {.offset = of_c.offset}), c(exact.before, types.out, of_c),
        again(exact.before, types.out, of_c);
    Run(a, b, c, bias, mode);
    Run(a, b, again, bias, mode);
    EXPECT_TRUE(c.HasBitsOf(again));
    const Tensor got = c.Read();
    for (int64_t i = 0; i < got.shape().Elements(); ++i) {
      const auto [value, error] = Expected(exact, types, mode, i);
      ASSERT_NEAR(got.Data<double>()[i], value, error)
          << "[" << i << "] mode " << static_cast<int>(mode) << (of_a.by_columns ? " Aᵀ" : " A")
          << (of_b.by_columns ? " Bᵀ" : " B");
    }
  }

  std::optional<Context> context_;
};

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
    for (const Sizes& sizes : {Sizes{65, 33, 130}, {200, 256, 512}}) {
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
    for (const Sizes& sizes : {Sizes{512, 512, 256}, {256, 258, 512}, {1, 512, 512}}) {
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
}  // namespace favor
