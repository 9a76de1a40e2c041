// Exact attention on a GPU against the reference on the same numbers in double. Skipped if there is
// no GPU.
#include <gtest/gtest.h>

#include "tests/kernels/cuda_exact.h"

namespace favor::exact_on_gpu {
namespace {

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
}  // namespace favor::exact_on_gpu
