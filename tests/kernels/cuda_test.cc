// The CUDA kernels against loops in double. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/device.h"
#include "favor/error.h"
#include "favor/random.h"
#include "kernels/layer_norm.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr double kEpsilon = 1e-5;
constexpr double kRounding = 0x1p-24;  // relative rounding of a float
// Roundings between an element and a sum over its row: sixteen in its thread, nine in a tree over
// 512 threads, four in a row wider than they hold, and those of the element itself.
constexpr double kRoundings = 40;

// Standard normal values, or integers from −3 to 3, whose sums are exact in any order.
enum class Values { kNormal, kIntegers };

Tensor Draw(const Shape& shape, const char* name, Values values = Values::kNormal,
            double offset = 0) {
  Tensor tensor(shape);
  const RandomStream stream(7, name);
  std::vector<double> block(1000);
  for (int64_t begin = 0; begin < shape.Elements(); begin += 1000) {
    stream.FillNormal(static_cast<uint64_t>(begin), block);
    for (int64_t i = begin; i < std::min(begin + 1000, shape.Elements()); ++i) {
      const double drawn = block[static_cast<size_t>(i - begin)];
      tensor.Data<float>()[i] = static_cast<float>(
          values == Values::kNormal ? offset + drawn
                                    : std::clamp(std::round(1.5 * drawn), -3.0, 3.0));
    }
  }
  return tensor;
}

Tensor OnCpu(const Tensor& tensor) { return tensor.To(Device{}); }
Tensor InDouble(const Tensor& tensor) { return OnCpu(tensor).To(DataType::kF64); }

void ExpectSameBits(const Tensor& a, const Tensor& b) {
  const Tensor one = OnCpu(a), other = OnCpu(b);
  ASSERT_EQ(one.shape(), other.shape());
  EXPECT_EQ(std::memcmp(one.Data<float>(), other.Data<float>(), static_cast<size_t>(one.Bytes())),
            0);
}

struct Sizes {
  int64_t rows, width;
};

std::vector<Sizes> AllSizes() {
  std::vector<Sizes> sizes;
  for (const int64_t width : {1, 7, 64, 130, 512, 1000, 4096, 5000}) {
    for (const int64_t rows : {1, 3, 257, 4099}) sizes.push_back({rows, width});
  }
  // More rows than groups of threads that run at the same time: those take several.
  sizes.push_back({20000, 64});
  sizes.push_back({9000, 512});
  // Rows wider than their threads can hold in registers.
  sizes.push_back({3, 10000});
  sizes.push_back({700, 8195});
  return sizes;
}

// One layer norm forward and backward, on the GPU and in double.
class CudaLayerNorm : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  }

  struct Pass {
    Pass(const Sizes& sizes, double offset = 0)
        : x(Draw({sizes.rows, sizes.width}, "x", Values::kNormal, offset).To(kGpu)),
          gain(Draw({sizes.width}, "gain").To(kGpu)),
          bias(Draw({sizes.width}, "bias").To(kGpu)),
          statistics({sizes.rows, 2}, DataType::kF32, kGpu),
          y({sizes.rows, sizes.width}, DataType::kF32, kGpu) {}

    void Run(const Context& context, bool again = false) {
      kernels::LayerNorm({.x = x,
                          .gain = gain,
                          .bias = bias,
                          .epsilon = kEpsilon,
                          .again = again,
                          .statistics = statistics,
                          .y = y},
                         context);
    }

    Tensor x, gain, bias, statistics, y;
  };

  struct Gradients {
    Gradients(const Sizes& sizes, Values values = Values::kNormal)
        : x(Draw({sizes.rows, sizes.width}, "x", values).To(kGpu)),
          gain(Draw({sizes.width}, "gain", values).To(kGpu)),
          statistics({sizes.rows, 2}),
          grad_y(Draw({sizes.rows, sizes.width}, "grad_y", values).To(kGpu)),
          grad_x(Draw({sizes.rows, sizes.width}, "grad_x", values).To(kGpu)),
          grad_gain(Draw({sizes.width}, "grad_gain", values).To(kGpu)),
          grad_bias(Draw({sizes.width}, "grad_bias", values).To(kGpu)) {
      for (int64_t row = 0; row < sizes.rows; ++row) {
        const bool drawn = values == Values::kNormal;
        statistics.Data<float>()[2 * row] = drawn ? 0.01f * static_cast<float>(row % 7) : 0.0f;
        statistics.Data<float>()[2 * row + 1] = drawn ? 1 + 0.1f * static_cast<float>(row % 5) : 1;
      }
      statistics = statistics.To(kGpu);
    }
    Gradients(Gradients&&) = default;

    // The same arrays in double on the CPU.
    Gradients Doubles() const {
      return {InDouble(x),      InDouble(gain),      InDouble(statistics), InDouble(grad_y),
              InDouble(grad_x), InDouble(grad_gain), InDouble(grad_bias)};
    }
    void Run(const Context& context, bool add, bool in_place = false) {
      kernels::LayerNormBackward({.x = x,
                                  .gain = gain,
                                  .statistics = statistics,
                                  .grad_y = in_place ? grad_x : grad_y,
                                  .add = add,
                                  .grad_x = grad_x,
                                  .grad_gain = grad_gain,
                                  .grad_bias = grad_bias},
                                 context);
    }

    Tensor x, gain, statistics, grad_y, grad_x, grad_gain, grad_bias;

   private:
    Gradients(Tensor x_, Tensor gain_, Tensor statistics_, Tensor grad_y_, Tensor grad_x_,
              Tensor grad_gain_, Tensor grad_bias_)
        : x(std::move(x_)),
          gain(std::move(gain_)),
          statistics(std::move(statistics_)),
          grad_y(std::move(grad_y_)),
          grad_x(std::move(grad_x_)),
          grad_gain(std::move(grad_gain_)),
          grad_bias(std::move(grad_bias_)) {}
  };

  static void ExpectForward(const Sizes& sizes, const Pass& pass);
  static void ExpectBackward(const Sizes& sizes, const Gradients& before, const Gradients& got,
                             bool add);

  const Context cpu_;
};

// The mean is rounded once, to u·|mean|, beyond what sums over deviations lose; the scale is a sum
// of squares under a root. Elements inherit both.
void CudaLayerNorm::ExpectForward(const Sizes& sizes, const Pass& pass) {
  const Tensor x = InDouble(pass.x), gain = InDouble(pass.gain), bias = InDouble(pass.bias);
  Tensor statistics({sizes.rows, 2}, DataType::kF64), y(x.shape(), DataType::kF64);
  kernels::LayerNorm(
      {.x = x, .gain = gain, .bias = bias, .epsilon = kEpsilon, .statistics = statistics, .y = y},
      Context());
  const Tensor got_statistics = OnCpu(pass.statistics), got = OnCpu(pass.y);
  for (int64_t row = 0; row < sizes.rows; ++row) {
    const double mean = statistics.Data<double>()[2 * row];
    const double scale = statistics.Data<double>()[2 * row + 1];
    const double mean_error = kRounding * (1.01 * std::fabs(mean) + kRoundings / scale);
    const double scale_error = kRounding * kRoundings * scale;
    ASSERT_NEAR(got_statistics.Data<float>()[2 * row], mean, mean_error) << row;
    ASSERT_NEAR(got_statistics.Data<float>()[2 * row + 1], scale, scale_error) << row;
    for (int64_t i = 0; i < sizes.width; ++i) {
      const int64_t at = row * sizes.width + i;
      const double factor = std::fabs(gain.Data<double>()[i]);
      const double centred = std::fabs(x.Data<double>()[at] - mean);
      const double error =
          factor * (scale * mean_error + centred * (scale_error + 4 * kRounding * scale)) +
          2 * kRounding * std::fabs(y.Data<double>()[at]);
      ASSERT_NEAR(got.Data<float>()[at], y.Data<double>()[at], error) << row << " " << i;
    }
  }
}

TEST_F(CudaLayerNorm, ForwardEqualsTheReference) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : AllSizes()) {
    SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width);
    Pass pass(sizes);
    pass.Run(context);
    ExpectForward(sizes, pass);
    if (HasFatalFailure()) return;
  }
}

// E[x²] − mean² in floats would lose every digit of the variance here. Floats near 3e7 are even
// numbers, and near 1e9 all values of a row are the same: their variance is 0.
TEST_F(CudaLayerNorm, IsExactWithALargeOffset) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : {Sizes{257, 130}, Sizes{257, 512}, Sizes{64, 4096}, Sizes{9, 10000}}) {
    for (const double offset : {1e4, 3e7, 1e9}) {
      SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width << " at " << offset);
      Pass pass(sizes, offset);
      pass.Run(context);
      ExpectForward(sizes, pass);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaLayerNorm, GivesTheSameAgainFromItsStatistics) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : AllSizes()) {
    SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width);
    Pass pass(sizes);
    pass.Run(context);
    const Tensor first = pass.y.Clone(), statistics = pass.statistics.Clone();
    pass.y = Tensor(pass.y.shape(), DataType::kF32, kGpu);
    pass.Run(context, /*again=*/true);
    ExpectSameBits(first, pass.y);
    ExpectSameBits(statistics, pass.statistics);
  }
  // It must use the given statistics, not those of the row.
  Pass pass({2, 8});
  Tensor given({2, 2});
  for (int64_t row = 0; row < 2; ++row) given.Data<float>()[2 * row + 1] = 2;
  pass.statistics = given.To(kGpu);
  pass.Run(context, /*again=*/true);
  const Tensor x = OnCpu(pass.x), gain = OnCpu(pass.gain), bias = OnCpu(pass.bias);
  const Tensor y = OnCpu(pass.y);
  for (int64_t i = 0; i < 16; ++i) {
    const float want =
        2 * x.Data<float>()[i] * gain.Data<float>()[i % 8] + bias.Data<float>()[i % 8];
    EXPECT_NEAR(y.Data<float>()[i], want, 1e-6);
  }
}

// Rows that do not begin at multiples of 16 bytes take loads of single floats.
TEST_F(CudaLayerNorm, TakesRowsAtAnyAddress) {
  const Context context({.device = kGpu});
  const Sizes sizes{33, 64};
  Pass pass(sizes);
  Tensor memory({33 * 64 + 1}, DataType::kF32, kGpu);
  const View shifted(memory.Data<float>() + 1, DataType::kF32, pass.x.shape(),
                     RowMajorStrides(pass.x.shape()), kGpu);
  CopyBytes(shifted.data(), kGpu, pass.x.Data<float>(), kGpu, pass.x.Bytes());
  kernels::LayerNorm({.x = shifted,
                      .gain = pass.gain,
                      .bias = pass.bias,
                      .epsilon = kEpsilon,
                      .statistics = pass.statistics,
                      .y = pass.y},
                     context);
  ExpectForward(sizes, pass);
}

// `before` and `got` are in double. Every element must be within the roundings of the terms of its
// formula, a sum over rows within as many roundings as there are rows.
void CudaLayerNorm::ExpectBackward(const Sizes& sizes, const Gradients& before,
                                   const Gradients& got, bool add) {
  const Context cpu;
  Gradients want = before.Doubles();
  want.Run(cpu, add);
  std::vector<double> gain_terms(static_cast<size_t>(sizes.width)), bias_terms = gain_terms;
  for (int64_t row = 0; row < sizes.rows; ++row) {
    const double mean = want.statistics.Data<double>()[2 * row];
    const double scale = want.statistics.Data<double>()[2 * row + 1];
    const double *x = want.x.Data<double>() + row * sizes.width,
                 *grad = want.grad_y.Data<double>() + row * sizes.width;
    double grads = 0, products = 0;
    for (int64_t i = 0; i < sizes.width; ++i) {
      const double normal = std::fabs((x[i] - mean) * scale);
      const double g = std::fabs(grad[i] * want.gain.Data<double>()[i]);
      grads += g / static_cast<double>(sizes.width);
      products += g * normal / static_cast<double>(sizes.width);
      gain_terms[static_cast<size_t>(i)] += std::fabs(grad[i]) * normal;
      bias_terms[static_cast<size_t>(i)] += std::fabs(grad[i]);
    }
    for (int64_t i = 0; i < sizes.width; ++i) {
      const int64_t at = row * sizes.width + i;
      const double normal = std::fabs((x[i] - mean) * scale);
      const double g = std::fabs(grad[i] * want.gain.Data<double>()[i]);
      const double error = kRounding * kRoundings * scale * (g + grads + normal * products) +
                           kRounding * std::fabs(want.grad_x.Data<double>()[at]);
      ASSERT_NEAR(got.grad_x.Data<double>()[at], want.grad_x.Data<double>()[at], error)
          << row << " " << i;
    }
  }
  const double row_roundings = kRounding * (static_cast<double>(sizes.rows) + kRoundings);
  for (int64_t i = 0; i < sizes.width; ++i) {
    const double gain = want.grad_gain.Data<double>()[i], bias = want.grad_bias.Data<double>()[i];
    const double gain_error = row_roundings * (gain_terms[static_cast<size_t>(i)] + 1);
    const double bias_error = row_roundings * (bias_terms[static_cast<size_t>(i)] + 1);
    ASSERT_NEAR(got.grad_gain.Data<double>()[i], gain, gain_error) << i;
    ASSERT_NEAR(got.grad_bias.Data<double>()[i], bias, bias_error) << i;
  }
}

TEST_F(CudaLayerNorm, BackwardEqualsTheReference) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : AllSizes()) {
    for (const bool add : {false, true}) {
      SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width << " add " << add);
      Gradients gradients(sizes);
      const Gradients before = gradients.Doubles();
      gradients.Run(context, add);
      ExpectBackward(sizes, before, gradients.Doubles(), add);
      if (HasFatalFailure()) return;
    }
  }
}

// Sums of small integers are exact in any order: a row that is missing or counted twice shows,
// however many there are.
TEST_F(CudaLayerNorm, EveryRowCountsOnceInTheGradientsOfGainAndBias) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : AllSizes()) {
    SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width);
    Gradients gradients(sizes, Values::kIntegers);
    Gradients want = gradients.Doubles();
    want.Run(cpu_, /*add=*/false);
    gradients.Run(context, /*add=*/false);
    ExpectSameBits(gradients.grad_gain, want.grad_gain.To(DataType::kF32));
    ExpectSameBits(gradients.grad_bias, want.grad_bias.To(DataType::kF32));
  }
}

TEST_F(CudaLayerNorm, GradientsMayReplaceWhatTheyComeFrom) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : {Sizes{257, 130}, Sizes{33, 4096}, Sizes{3, 10000}}) {
    SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width);
    Gradients apart(sizes), in_place(sizes);
    apart.Run(context, /*add=*/false);
    in_place.grad_x = in_place.grad_y.Clone();
    in_place.Run(context, /*add=*/false, /*in_place=*/true);
    ExpectSameBits(apart.grad_x, in_place.grad_x);
    ExpectSameBits(apart.grad_gain, in_place.grad_gain);
  }
}

TEST_F(CudaLayerNorm, GivesTheSameBitsFromRunToRun) {
  const Context context({.device = kGpu});
  for (const Sizes& sizes : {Sizes{4099, 64}, Sizes{4099, 512}, Sizes{4099, 4096}}) {
    SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.width);
    Gradients first(sizes);
    first.Run(context, /*add=*/true);
    for (int run = 0; run < 5; ++run) {
      Gradients next(sizes);
      next.Run(context, /*add=*/true);
      ExpectSameBits(first.grad_x, next.grad_x);
      ExpectSameBits(first.grad_gain, next.grad_gain);
      ExpectSameBits(first.grad_bias, next.grad_bias);
    }
  }
}

// Two contexts are two streams, each with scratch of its own: the work of one does not affect the
// other.
TEST_F(CudaLayerNorm, ContextsWorkAtTheSameTime) {
  const Context one({.device = kGpu}), other({.device = kGpu});
  const Sizes small{4099, 130}, large{2048, 4096};
  Gradients alone_small(small), alone_large(large);
  for (int turn = 0; turn < 10; ++turn) {
    alone_small.Run(one, /*add=*/true);
    alone_large.Run(one, /*add=*/true);
  }
  one.Wait();
  Gradients at_once_small(small), at_once_large(large);
  for (int turn = 0; turn < 10; ++turn) {
    at_once_small.Run(one, /*add=*/true);
    at_once_large.Run(other, /*add=*/true);
  }
  one.Wait();
  other.Wait();
  ExpectSameBits(alone_small.grad_x, at_once_small.grad_x);
  ExpectSameBits(alone_small.grad_gain, at_once_small.grad_gain);
  ExpectSameBits(alone_large.grad_x, at_once_large.grad_x);
  ExpectSameBits(alone_large.grad_bias, at_once_large.grad_bias);
}

TEST_F(CudaLayerNorm, RefusesDoubles) {
  Pass pass({3, 8});
  pass.y = Tensor({3, 8}, DataType::kF64, kGpu);
  try {
    pass.Run(Context({.device = kGpu}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_STREQ(error.what(), "layer norm: given f64 arrays on cuda:0, expected f32 or bf16");
  }
}

// Needs no GPU: arrays that claim to be on a GPU are refused before they are read.
TEST(Cuda, LayerNormNeedsAContextOnItsDevice) {
  float memory[64] = {};
  const auto on_gpu = [&](const Shape& shape) {
    return View(memory, DataType::kF32, shape, RowMajorStrides(shape), kGpu);
  };
  const View x = on_gpu({2, 8}), row = on_gpu({8});
  try {
    kernels::LayerNorm({.x = x,
                        .gain = row,
                        .bias = row,
                        .epsilon = kEpsilon,
                        .statistics = on_gpu({2, 2}),
                        .y = x},
                       Context());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "layer norm: given arrays on cuda:0 and a context on cpu, expected both on one "
                 "device");
  }
}

}  // namespace
}  // namespace favor
