// Calls of exact attention on a GPU, and the reference on the same numbers in double.
#ifndef FAVOR_TESTS_KERNELS_CUDA_EXACT_H_
#define FAVOR_TESTS_KERNELS_CUDA_EXACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/element.h"
#include "core/tally.h"
#include "favor/error.h"
#include "favor/random.h"
#include "kernels/exact_attention.h"

namespace favor::exact_on_gpu {

constexpr Device kGpu{DeviceType::kCuda, 0};

struct Case {
  std::string name;
  int64_t batch = 2, heads = 2, kv_heads = 2, query_length = 150, key_length = 150;
  int64_t dim = 64, value_dim = 64;
  bool causal = false;
  int64_t before = 0;
  bool masked = false;
  int64_t window = -1;
  bool normalize = true, bounded = true;
  double scale = 0.125;
  double deviation = 1;  // of queries and keys
};

inline std::vector<Case> AllCases() {
  return {
      {.name = "both directions"},
      {.name = "causal", .causal = true},
      {.name = "one row", .query_length = 1, .key_length = 1},
      {.name = "few rows", .query_length = 3, .key_length = 7, .dim = 5, .value_dim = 3},
      {.name = "whole tiles", .query_length = 256, .key_length = 128, .dim = 128, .value_dim = 128},
      {.name = "causal prefix",
       .query_length = 90,
       .key_length = 300,
       .causal = true,
       .before = 210},
      {.name = "more queries than keys", .query_length = 300, .key_length = 70, .causal = true},
      {.name = "masked", .key_length = 200, .masked = true},
      {.name = "masked, causal",
       .query_length = 200,
       .key_length = 200,
       .causal = true,
       .masked = true},
      {.name = "shared keys",
       .heads = 6,
       .kv_heads = 2,
       .key_length = 190,
       .causal = true,
       .before = 40,
       .masked = true},
      {.name = "narrow values", .dim = 40, .value_dim = 24, .causal = true},
      {.name = "wide values", .key_length = 77, .dim = 33, .value_dim = 100, .masked = true},
      {.name = "dim 128",
       .query_length = 260,
       .key_length = 330,
       .dim = 128,
       .value_dim = 128,
       .causal = true,
       .before = 70},
      {.name = "wide rows", .query_length = 70, .key_length = 130, .dim = 200, .value_dim = 256},
      {.name = "wide rows, causal",
       .query_length = 100,
       .key_length = 100,
       .dim = 256,
       .value_dim = 136,
       .causal = true},
      {.name = "window", .query_length = 400, .key_length = 400, .window = 50},
      {.name = "window, causal",
       .query_length = 400,
       .key_length = 400,
       .causal = true,
       .window = 33},
      {.name = "window 0", .query_length = 130, .key_length = 130, .masked = true, .window = 0},
      {.name = "rows without keys",
       .query_length = 300,
       .key_length = 200,
       .causal = true,
       .before = -60,
       .window = 20},
      {.name = "unnormalised", .causal = true, .masked = true, .normalize = false},
      {.name = "unnormalised, dim 128",
       .dim = 128,
       .value_dim = 128,
       .normalize = false,
       .scale = 0.1},
      {.name = "weights of any size", .causal = true, .bounded = false},
      {.name = "scale 0", .causal = true, .scale = 0},
      {.name = "negative scale", .scale = -0.125},
      {.name = "few queries, many keys",
       .heads = 4,
       .kv_heads = 1,
       .query_length = 2,
       .key_length = 5000,
       .causal = true,
       .before = 4998,
       .masked = true},
  };
}

// A row-major array of normal values, rounded to `type`.
inline Tensor Draw(const Shape& shape, const char* name, DataType type, double deviation) {
  Tensor tensor(shape, DataType::kF64);
  const RandomStream stream(11, name);
  stream.FillNormal(0, {tensor.Data<double>(), static_cast<size_t>(shape.Elements())});
  for (int64_t i = 0; i < shape.Elements(); ++i) tensor.Data<double>()[i] *= deviation;
  return type == DataType::kF64 ? std::move(tensor) : tensor.To(type);
}

// The arrays of one call, all on one device.
struct Arrays {
  Arrays(const Case& c, DataType type)
      : q(Draw({c.batch, c.heads, c.query_length, c.dim}, "q", type, c.deviation)),
        k(Draw({c.batch, c.kv_heads, c.key_length, c.dim}, "k", type, c.deviation)),
        v(Draw({c.batch, c.kv_heads, c.key_length, c.value_dim}, "v", type, 1)),
        grad_out(Draw({c.batch, c.heads, c.query_length, c.value_dim}, "grad", type, 1)) {
    if (!c.masked) return;
    mask = Tensor({c.batch, c.kv_heads, c.key_length});
    const RandomStream stream(12, "mask");
    for (int64_t i = 0; i < mask.shape().Elements(); ++i)
      mask.Data<float>()[i] = stream.Uniform(static_cast<uint64_t>(i)) < 0.7 ? 1 : 0;
    // Whole tiles that do not exist, and a batch entry without any key.
    for (int64_t j = 0; j < std::min<int64_t>(c.key_length, 70); ++j) mask.Data<float>()[j] = 0;
    std::fill_n(mask.Data<float>() + (c.batch * c.kv_heads - 1) * c.key_length, c.key_length, 0.0f);
  }
  Arrays(Tensor q_, Tensor k_, Tensor v_, Tensor grad_out_, Tensor mask_)
      : q(std::move(q_)),
        k(std::move(k_)),
        v(std::move(v_)),
        grad_out(std::move(grad_out_)),
        mask(std::move(mask_)) {}

  Arrays OnGpu() const {
    return {q.To(kGpu), k.To(kGpu), v.To(kGpu), grad_out.To(kGpu),
            mask.empty() ? Tensor() : mask.To(kGpu)};
  }
  Arrays InDouble() const {
    return {q.To(DataType::kF64), k.To(DataType::kF64), v.To(DataType::kF64),
            grad_out.To(DataType::kF64), mask.empty() ? Tensor() : mask.Clone()};
  }
  kernels::AttentionProblem Problem(const Case& c) const {
    return {.q = q,
            .k = k,
            .v = v,
            .mask = mask,
            .batch = c.batch,
            .heads = c.heads,
            .kv_heads = c.kv_heads,
            .query_length = c.query_length,
            .key_length = c.key_length,
            .dim = c.dim,
            .value_dim = c.value_dim,
            .causal = c.causal,
            .before = c.before,
            .window = c.window,
            .scale = c.scale,
            .normalize = c.normalize};
  }

  Tensor q, k, v, grad_out, mask;
};

struct Results {
  Tensor out, log_sum, grad_q, grad_k, grad_v;
  TallyEntry counts;
};

// δ of what a call in double gave.
inline Tensor Deltas(const Case& c, const Tensor& out, const Tensor& grad_out) {
  Tensor delta({c.batch * c.heads, c.query_length}, DataType::kF64);
  for (int64_t i = 0; c.normalize && i < out.shape().Elements(); ++i)
    delta.Data<double>()[i / c.value_dim] -= out.Data<double>()[i] * grad_out.Data<double>()[i];
  return delta;
}

// Forward and backward; on a GPU with δ of `want`. `type` is that of the results.
inline Results Compute(const Case& c, const Arrays& arrays, DataType type, const Context& context,
                       const Results* want = nullptr) {
  const Device device = context.device();
  const bool gpu = device.type == DeviceType::kCuda;
  Results r{.out = Tensor(arrays.grad_out.shape(), type, device),
            .log_sum = Tensor({c.batch * c.heads, c.query_length},
                              gpu ? DataType::kF32 : DataType::kF64, device),
            .grad_q = Tensor(arrays.q.shape(), type, device),
            .grad_k = Tensor(arrays.k.shape(), type, device),
            .grad_v = Tensor(arrays.v.shape(), type, device)};
  const kernels::AttentionProblem problem = arrays.Problem(c);
  const Tally tally(context);
  kernels::ExactAttention(
      {.problem = problem, .out = r.out, .log_sum = r.log_sum, .tally = tally.At()}, context);
  const Tensor delta = gpu ? Deltas(c, want->out, arrays.grad_out.To(Device{}).To(DataType::kF64))
                                 .To(DataType::kF32)
                                 .To(kGpu)
                           : Deltas(c, r.out, arrays.grad_out);
  kernels::ExactAttentionBackward({.problem = problem,
                                   .out = r.out,
                                   .grad_out = arrays.grad_out,
                                   .log_sum = r.log_sum,
                                   .delta = delta,
                                   .grad_q = r.grad_q,
                                   .grad_k = r.grad_k,
                                   .grad_v = r.grad_v,
                                   .tally = tally.At(),
                                   .bounded = c.bounded},
                                  context);
  r.counts = tally.Read()[0];
  return r;
}

inline Tensor Doubles(const Tensor& tensor) { return tensor.To(Device{}).To(DataType::kF64); }

// ‖got − want‖/‖want‖; infinity must be where it is expected. If what is wanted is 0 because sums
// of numbers near 1 cancel, the error per element is taken instead.
inline double RelativeError(const Tensor& got, const Tensor& want) {
  const Tensor values = Doubles(got);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < want.shape().Elements(); ++i) {
    const double a = values.Data<double>()[i], b = want.Data<double>()[i];
    if (a == b) {
      norm += std::isfinite(b) ? b * b : 0;
      continue;
    }
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  const auto elements = static_cast<double>(want.shape().Elements());
  return difference == 0 ? 0 : std::sqrt(difference / (norm > 1e-20 * elements ? norm : elements));
}

struct Bounds {
  double out, gradients;
};

inline void ExpectEqual(const Case& c, const Results& got, const Results& want,
                        const Bounds& bounds) {
  EXPECT_LE(RelativeError(got.out, want.out), bounds.out);
  EXPECT_LE(RelativeError(got.log_sum, want.log_sum), std::min(bounds.out, 1e-4));
  if (c.scale != 0) {
    EXPECT_LE(RelativeError(got.grad_q, want.grad_q), bounds.gradients);
    EXPECT_LE(RelativeError(got.grad_k, want.grad_k), bounds.gradients);
  }
  EXPECT_LE(RelativeError(got.grad_v, want.grad_v), bounds.gradients);
  EXPECT_EQ(got.counts.empty, want.counts.empty);
  EXPECT_EQ(got.counts.nonpositive, 0);
  EXPECT_EQ(got.counts.unusable, 0);
}

inline void ExpectSameBits(const Tensor& a, const Tensor& b) {
  const Tensor one = a.To(Device{}), other = b.To(Device{});
  ASSERT_EQ(one.Bytes(), other.Bytes());
  EXPECT_EQ(std::memcmp(one.view().data(), other.view().data(), static_cast<size_t>(one.Bytes())),
            0);
}

class CudaExact : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
  }
  void ExpectAllCases(DataType type, DataType result_type, const Bounds& bounds) {
    const Context gpu({.device = kGpu});
    for (const Case& c : AllCases()) {
      SCOPED_TRACE(c.name);
      const Arrays arrays(c, type);
      const Results want = Compute(c, arrays.InDouble(), DataType::kF64, cpu_);
      ExpectEqual(c, Compute(c, arrays.OnGpu(), result_type, gpu, &want), want, bounds);
    }
  }

  const Context cpu_;
};
}  // namespace favor::exact_on_gpu

#endif  // FAVOR_TESTS_KERNELS_CUDA_EXACT_H_
