// Exact attention on a GPU against the reference on the same numbers in double. Skipped if there is
// no GPU.
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

namespace favor {
namespace {

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

std::vector<Case> AllCases() {
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
Tensor Draw(const Shape& shape, const char* name, DataType type, double deviation) {
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
Tensor Deltas(const Case& c, const Tensor& out, const Tensor& grad_out) {
  Tensor delta({c.batch * c.heads, c.query_length}, DataType::kF64);
  for (int64_t i = 0; c.normalize && i < out.shape().Elements(); ++i)
    delta.Data<double>()[i / c.value_dim] -= out.Data<double>()[i] * grad_out.Data<double>()[i];
  return delta;
}

// Forward and backward; on a GPU with δ of `want`. `type` is that of the results.
Results Compute(const Case& c, const Arrays& arrays, DataType type, const Context& context,
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

Tensor Doubles(const Tensor& tensor) { return tensor.To(Device{}).To(DataType::kF64); }

// ‖got − want‖/‖want‖; infinity must be where it is expected. If what is wanted is 0 because sums
// of numbers near 1 cancel, the error per element is taken instead.
double RelativeError(const Tensor& got, const Tensor& want) {
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

void ExpectEqual(const Case& c, const Results& got, const Results& want, const Bounds& bounds) {
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

void ExpectSameBits(const Tensor& a, const Tensor& b) {
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

TEST_F(CudaExact, EqualsTheReferenceInF32) {
  ExpectAllCases(DataType::kF32, DataType::kF32, {.out = 1e-5, .gradients = 1e-5});
}

// Weights and results are rounded to 8 bits.
TEST_F(CudaExact, EqualsTheReferenceInBf16) {
  ExpectAllCases(DataType::kBF16, DataType::kBF16, {.out = 1e-2, .gradients = 2e-2});
}

TEST_F(CudaExact, EqualsTheReferenceInF16) {
  ExpectAllCases(DataType::kF16, DataType::kF32, {.out = 1e-3, .gradients = 3e-3});
}

// Scores up to 250: a float's distance to the next is 1.5e-5 there.
TEST_F(CudaExact, LargeScoresLoseNothingInF32) {
  const Context gpu({.device = kGpu});
  for (const double deviation : {4.0, 8.0}) {
    const Case c{
        .name = "", .query_length = 300, .key_length = 300, .causal = true, .deviation = deviation};
    const Arrays arrays(c, DataType::kF32);
    const Results want = Compute(c, arrays.InDouble(), DataType::kF64, cpu_);
    ExpectEqual(c, Compute(c, arrays.OnGpu(), DataType::kF32, gpu, &want), want,
                {.out = 1e-5, .gradients = 2e-5});
  }
}

TEST_F(CudaExact, GivesParts) {
  const Context gpu({.device = kGpu});
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    for (const int64_t queries : {3, 200}) {
      const Case c{.name = "",
                   .query_length = queries,
                   .key_length = 700,
                   .causal = true,
                   .before = 500,
                   .masked = true,
                   .scale = 0.3};
      const Arrays arrays(c, type), on_gpu = arrays.OnGpu();
      const Results want = Compute(c, arrays.InDouble(), DataType::kF64, cpu_);
      Tensor out({c.batch, c.heads, queries, c.value_dim}, DataType::kF32, kGpu);
      Tensor log_scale({c.batch * c.heads, queries}, DataType::kF64, kGpu);
      Tensor numerator({c.batch * c.heads, queries, c.value_dim}, DataType::kF64, kGpu);
      Tensor denominator({c.batch * c.heads, queries}, DataType::kF64, kGpu);
      const Tally tally(gpu);
      const kernels::AttentionProblem problem = on_gpu.Problem(c);
      kernels::ExactAttention({.problem = problem,
                               .out = out,
                               .tally = tally.At(),
                               .parts = {log_scale, numerator, denominator}},
                              gpu);
      EXPECT_EQ(tally.Read()[0].empty, 0);
      const Tensor scales = Doubles(log_scale), sums = Doubles(denominator);
      Tensor got = Doubles(numerator), log_sum(scales.shape(), DataType::kF64);
      for (int64_t row = 0; row < scales.shape().Elements(); ++row) {
        const double scale = scales.Data<double>()[row], sum = sums.Data<double>()[row];
        const bool has_keys = scale > -INFINITY;
        log_sum.Data<double>()[row] = has_keys ? scale + std::log(sum) : INFINITY;
        for (int64_t i = 0; i < c.value_dim; ++i)
          got.Data<double>()[row * c.value_dim + i] /= has_keys ? sum : 1;
      }
      EXPECT_LE(RelativeError(got, want.out), type == DataType::kF32 ? 1e-5 : 1e-2);
      EXPECT_LE(RelativeError(log_sum, want.log_sum), 1e-4);
    }
  }
}

TEST_F(CudaExact, GivesTheSameBitsFromRunToRun) {
  const Context gpu({.device = kGpu});
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    for (const int64_t queries : {2, 1000}) {
      const Case c{.name = "",
                   .heads = 4,
                   .query_length = queries,
                   .key_length = 3000,
                   .causal = true,
                   .before = 3000 - queries};
      const Arrays arrays = Arrays(c, type).OnGpu();
      Results some;
      some.out = Tensor(arrays.grad_out.shape(), DataType::kF64);
      const Results first = Compute(c, arrays, type, gpu, &some);
      for (int run = 0; run < 5; ++run) {
        const Results next = Compute(c, arrays, type, gpu, &some);
        ExpectSameBits(first.out, next.out);
        ExpectSameBits(first.grad_q, next.grad_q);
        ExpectSameBits(first.grad_k, next.grad_k);
        ExpectSameBits(first.grad_v, next.grad_v);
      }
    }
  }
}

// The same numbers as [batch, length, heads, dim], and at addresses that no vector begins at.
TEST_F(CudaExact, TakesAnyStrides) {
  const Context gpu({.device = kGpu});
  const Case c{.name = "", .kv_heads = 2, .causal = true, .masked = true};
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const Arrays arrays(c, type);
    const Results want = Compute(c, arrays.InDouble(), DataType::kF64, cpu_);
    for (const int64_t shift : {0, 1}) {
      const auto strided = [&](Tensor& memory, const Tensor& from) {
        const Shape& shape = from.shape();
        const int64_t row = shape[3] + shift, token = row * shape[1];
        memory = Tensor({shape.Elements() / shape[3] * row + shift}, type);
        const auto view = [&](Tensor& of, Device device) {
          return View(static_cast<char*>(of.view().data()) + shift * ItemBytes(type), type, shape,
                      {shape[2] * token, row, token, 1}, device);
        };
        if (from.device() == Device{}) Copy(from, view(memory, Device{}));
        memory = memory.To(kGpu);
        return view(memory, kGpu);
      };
      Tensor q, k, v, grad_out, grad_q, out;
      kernels::AttentionProblem problem = arrays.Problem(c);
      problem.q = strided(q, arrays.q);
      problem.k = strided(k, arrays.k);
      problem.v = strided(v, arrays.v);
      const Tensor mask = arrays.mask.To(kGpu);
      problem.mask = mask;
      const View to = strided(out, arrays.grad_out), grads = strided(grad_out, arrays.grad_out);
      const View grad_q_to = strided(grad_q, arrays.q);
      Tensor log_sum({c.batch * c.heads, c.query_length}, DataType::kF32, kGpu);
      Tensor grad_k(arrays.k.shape(), type, kGpu), grad_v(arrays.v.shape(), type, kGpu);
      const Tally tally(gpu);
      kernels::ExactAttention(
          {.problem = problem, .out = to, .log_sum = log_sum, .tally = tally.At()}, gpu);
      const Tensor delta =
          Deltas(c, want.out, arrays.grad_out.To(DataType::kF64)).To(DataType::kF32).To(kGpu);
      kernels::ExactAttentionBackward({.problem = problem,
                                       .out = to,
                                       .grad_out = grads,
                                       .log_sum = log_sum,
                                       .delta = delta,
                                       .grad_q = grad_q_to,
                                       .grad_k = grad_k,
                                       .grad_v = grad_v,
                                       .tally = tally.At()},
                                      gpu);
      EXPECT_EQ(tally.Read()[0].unusable, 0);
      const auto error = [&](const Tensor& memory, const View& view, const Tensor& expected) {
        const Tensor on_cpu = memory.To(Device{});
        Tensor packed(expected.shape(), type);
        Copy(ConstView(static_cast<const char*>(on_cpu.view().data()) + shift * ItemBytes(type),
                       type, view.shape(), view.strides(), Device{}),
             packed);
        return RelativeError(packed, expected);
      };
      const double bound = type == DataType::kF32 ? 1e-5 : 2e-2;
      EXPECT_LE(error(out, to, want.out), bound);
      EXPECT_LE(error(grad_q, grad_q_to, want.grad_q), bound);
      EXPECT_LE(RelativeError(grad_k, want.grad_k), bound);
      EXPECT_LE(RelativeError(grad_v, want.grad_v), bound);
    }
  }
}

TEST_F(CudaExact, MaskedKeysMayHoldAnything) {
  const Context gpu({.device = kGpu});
  const Case c{.name = "", .query_length = 140, .key_length = 140, .causal = true, .masked = true};
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const Arrays clean(c, type);
    Arrays arrays(c, type);
    for (int64_t row = 0; row < c.batch * c.kv_heads * c.key_length; ++row) {
      if (arrays.mask.Data<float>()[row] != 0) continue;
      for (int64_t i = 0; i < c.dim; ++i) {
        StoreElement(arrays.k.view().data(), type, row * c.dim + i, i % 2 == 0 ? NAN : INFINITY);
        StoreElement(arrays.v.view().data(), type, row * c.dim + i, i % 2 == 0 ? INFINITY : NAN);
      }
    }
    const Results want = Compute(c, clean.InDouble(), DataType::kF64, cpu_);
    const Results one = Compute(c, clean.OnGpu(), type, gpu, &want);
    const Results other = Compute(c, arrays.OnGpu(), type, gpu, &want);
    EXPECT_EQ(other.counts.unusable, 0);
    ExpectSameBits(one.out, other.out);
    ExpectSameBits(one.grad_q, other.grad_q);
    ExpectSameBits(one.grad_k, other.grad_k);
    ExpectSameBits(one.grad_v, other.grad_v);
  }
}

TEST_F(CudaExact, CountsRowsThatAreNotFinite) {
  const Context gpu({.device = kGpu});
  const Case c{.name = "", .batch = 1, .heads = 1, .kv_heads = 1, .causal = true};
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    for (const char* array : {"q", "k", "v"}) {
      Arrays arrays(c, type);
      const Results want = Compute(c, arrays.InDouble(), DataType::kF64, cpu_);
      Tensor& changed = array[0] == 'q' ? arrays.q : array[0] == 'k' ? arrays.k : arrays.v;
      StoreElement(changed.view().data(), type, 40 * c.dim, NAN);
      const Results got = Compute(c, arrays.OnGpu(), type, gpu, &want);
      EXPECT_GT(got.counts.unusable, 0) << array;
    }
  }
}

TEST_F(CudaExact, RefusesWhatItCannotCompute) {
  const Context gpu({.device = kGpu});
  const auto message = [&](const Case& c, DataType type, DataType result_type) {
    Results some;
    some.out = Tensor({c.batch, c.heads, c.query_length, c.value_dim}, DataType::kF64);
    try {
      Compute(c, Arrays(c, type).OnGpu(), result_type, gpu, &some);
    } catch (const favor::Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message({.name = ""}, DataType::kF64, DataType::kF64),
            "exact attention: given f64, f64 and f64 arrays on cuda:0, expected one of f32, f16 "
            "and bf16 for all");
  EXPECT_EQ(message({.name = "", .dim = 257}, DataType::kF32, DataType::kF32),
            "exact attention: given rows of 257 elements on cuda:0, expected at most 256");
  EXPECT_EQ(message({.name = ""}, DataType::kF16, DataType::kBF16),
            "exact attention: given bf16 results on cuda:0, expected f32 or f16");
}

}  // namespace
}  // namespace favor
