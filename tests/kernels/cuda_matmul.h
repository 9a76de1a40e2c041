// Products on a GPU and what they must be: plain loops in double of the same rounded inputs.
#ifndef FAVOR_TESTS_KERNELS_CUDA_MATMUL_H_
#define FAVOR_TESTS_KERNELS_CUDA_MATMUL_H_

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

namespace favor::matmul_on_gpu {

namespace engine = kernels::cuda::matmul_library;

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

inline bool HasLibrary() {
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

inline std::string Named(const Sizes& s, const Types& types) {
  return std::to_string(s.rows) + "x" + std::to_string(s.columns) + "x" + std::to_string(s.depth) +
         " " + std::string(Name(types.in)) + " to " + std::string(Name(types.out));
}

// Numbers of N(0, 1), rounded to a type, as doubles.
inline Tensor Draw(int64_t rows, int64_t columns, const char* name, DataType type) {
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
inline Bounded Expected(const Exact& exact, const Types& types, Mode mode, int64_t i) {
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
}  // namespace favor::matmul_on_gpu

#endif  // FAVOR_TESTS_KERNELS_CUDA_MATMUL_H_
