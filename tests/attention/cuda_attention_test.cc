// Attention and its gradients on a GPU against the reference in double. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include "tests/attention/cuda_attention.h"

namespace favor::attention_on_gpu {
namespace {

TEST_F(CudaAttention, LinearEqualsTheReference) {
  for (const DataType type : {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const Case& c : Variations({.length = 150, .dim = 32, .value_dim = 32, .features = 64}))
      ExpectReference(c, type);
  }
}

TEST_F(CudaAttention, IdentityEqualsTheReference) {
  for (const DataType type : {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const Case& c :
         Variations({.attention = "identity", .length = 70, .dim = 8, .value_dim = 40})) {
      if (!c.cross) ExpectReference(c, type);
    }
  }
}

TEST_F(CudaAttention, ExactEqualsTheReference) {
  for (const DataType type : {DataType::kF32, DataType::kBF16, DataType::kF16}) {
    for (const Case& c :
         Variations({.attention = "exact", .length = 150, .dim = 64, .value_dim = 64}))
      ExpectReference(c, type);
  }
}

TEST_F(CudaAttention, SizesOfTheFastKernelsEqualTheReference) {
  for (const int64_t features : {128, 256}) {
    for (const int64_t length : {64, 333}) {
      for (const bool causal : {false, true}) {
        for (const char* map : {"positive", "relu"}) {
          Case c{.map = map,
                 .causal = causal,
                 .length = length,
                 .dim = 64,
                 .value_dim = 64,
                 .features = features};
          ExpectReference(c, DataType::kF32);
          c.omega_type = OmegaType::kBF16;
          ExpectReference(c, DataType::kBF16);
          c.masked = true;
          ExpectReference(c, DataType::kBF16);
          c.grouped = true;
          ExpectReference(c, DataType::kBF16);
        }
      }
    }
  }
}

TEST_F(CudaAttention, OddSizesEqualTheReference) {
  for (const auto& [length, dim, value_dim, features] :
       {std::array<int64_t, 4>{1, 1, 1, 1}, {7, 3, 130, 5}, {65, 100, 7, 33}, {200, 256, 256, 48}})
    for (const bool causal : {false, true})
      for (const char* attention : {"linear", "exact"})
        ExpectReference({.attention = attention,
                         .causal = causal,
                         .length = length,
                         .dim = dim,
                         .value_dim = value_dim,
                         .features = features,
                         .deviation = 0.5},
                        DataType::kF32);
}

TEST_F(CudaAttention, ExactWindowsEqualTheReference) {
  for (const int64_t window : {0, 5, 100}) {
    for (const bool causal : {false, true}) {
      const Case c{.attention = "exact-window",
                   .causal = causal,
                   .window = window,
                   .length = 150,
                   .dim = 64,
                   .value_dim = 64};
      ExpectReference(c, DataType::kF32);
      ExpectReference(c, DataType::kBF16);
    }
  }
}

TEST_F(CudaAttention, EveryMapEqualsTheReferenceOrIsRefused) {
  int computed = 0;
  for (const FeatureMapInfo& map : Maps()) {
    for (const bool causal : {false, true}) {
      if (map.name == "sgn") continue;  // the sign of a number near 0 may be the other
      const Case c{.map = std::string(map.name),
                   .causal = causal,
                   // Signed maps may have denominators near 0, which say nothing about sums.
                   .normalize = map.nonnegative || map.name.starts_with("taylor"),
                   .length = 90,
                   .dim = 8,
                   .value_dim = 8,
                   .features = 64,
                   .deviation = 0.3};
      const Call call(c);
      const std::string refused =
          MessageOf([&] { Pass(call, call.options, *gpu_, DataType::kF32); });
      if (refused.empty()) {
        ExpectReference(c, DataType::kF32);
        ++computed;
      } else {
        EXPECT_NE(refused.find("the map '" + c.map + "' runs on the cpu only"), std::string::npos)
            << refused;
      }
    }
  }
  EXPECT_GE(computed, 34);  // maps with an ω that are not masked, and monomials
}

// A from the data of the call, and from the plan.
TEST_F(CudaAttention, OprfEqualsTheReference) {
  const Tensor q = RandomTensor({2, 3, 70, 16}, 0.8, 1), k = RandomTensor({2, 3, 90, 16}, 0.8, 2),
               v = RandomTensor({2, 3, 90, 8}, 1, 3);
  AttentionOptions options{.features = {.map = "oprf", .features = 64}};
  const Tensor got = Attend(q.To(kGpu), k.To(kGpu), v.To(kGpu), options, *gpu_);
  options.reference = true;
  EXPECT_LE(ErrorOf(got, Attend(q, k, v, options, cpu_)), 1e-4);
}

TEST_F(CudaAttention, LongRowsKeepTheirDigits) {
  for (const double deviation : {2.0, 8.0})
    for (const bool causal : {false, true})
      ExpectReference({.causal = causal,
                       .length = 200,
                       .dim = 16,
                       .value_dim = 16,
                       .features = 64,
                       .deviation = deviation},
                      DataType::kF32);
}

TEST_F(CudaAttention, GivesTheSameBitsTwice) {
  for (const char* attention : {"linear", "exact"}) {
    for (const bool causal : {false, true}) {
      const Call call(Case{.attention = attention,
                           .causal = causal,
                           .grouped = true,
                           .length = 500,
                           .dim = 64,
                           .value_dim = 64,
                           .features = 128});
      const Pass one(call, call.options, *gpu_, DataType::kBF16),
          other(call, call.options, *gpu_, DataType::kBF16);
      ExpectSameBits(one.out, other.out);
      ExpectSameBits(one.gradients.q, other.gradients.q);
      ExpectSameBits(one.gradients.k, other.gradients.k);
      ExpectSameBits(one.gradients.v, other.gradients.v);
    }
  }
}

TEST_F(CudaAttention, WithoutATraceGradientsAreTheSame) {
  const Call call(Case{.causal = true, .length = 100, .dim = 16, .value_dim = 16, .features = 32});
  const Pass traced(call, call.options, *gpu_, DataType::kF32);
  const AttentionGradients again = AttendBackward(
      {call.q.To(kGpu), call.k.To(kGpu), call.v.To(kGpu), traced.out, call.grad_out.To(kGpu)},
      call.options, *gpu_);
  ExpectSameBits(again.q, traced.gradients.q);
  ExpectSameBits(again.v, traced.gradients.v);
}

// [length, heads, dim] as models have them, masks on the GPU, and results of 16 bits.
TEST_F(CudaAttention, TakesStridesMasksOnTheGpuAndResultsOf16Bits) {
  constexpr int64_t kHeads = 3, kLength = 130, kDim = 32;
  const Tensor rows = RandomTensor({kLength, 3 * kHeads * kDim}, 0.5, 1).To(DataType::kBF16);
  const Tensor there = rows.To(kGpu);
  const auto part = [](const Tensor& from, int64_t which) {
    const auto* data = static_cast<const std::byte*>(from.view().data());
    return ConstView(data + 2 * which * kHeads * kDim, DataType::kBF16, {kHeads, kLength, kDim},
                     {kDim, 3 * kHeads * kDim, 1}, from.device());
  };
  Tensor mask({kLength});
  for (int64_t i = 0; i < kLength; ++i) mask.Data<float>()[i] = i % 4 == 1 ? 0.0f : 1.0f;
  const Tensor mask_there = mask.To(kGpu);
  for (const char* attention : {"linear", "exact"}) {
    AttentionOptions options{.attention = attention, .causal = true, .key_mask = mask_there};
    Tensor out({kHeads, kLength, kDim}, DataType::kBF16, kGpu);
    AttendInto({part(there, 0), part(there, 1), part(there, 2)}, options, *gpu_, out);
    options.key_mask = mask;
    options.reference = true;
    const Tensor want = Attend(part(rows, 0), part(rows, 1), part(rows, 2), options, cpu_);
    EXPECT_LE(ErrorOf(out, want), 1e-2) << attention;
  }
}

TEST_F(CudaAttention, MatricesEqualTheReference) {
  const Tensor q = RandomTensor({2, 70, 16}, 0.5, 1), k = RandomTensor({2, 90, 16}, 0.5, 2);
  AttentionOptions options{.features = {.features = 64}};
  const Tensor got = AttentionMatrix(q.To(kGpu), k.To(kGpu), options, *gpu_);
  options.reference = true;
  EXPECT_LE(ErrorOf(got, AttentionMatrix(q, k, options, cpu_)), 1e-4);
}

// What a benchmark times: the kernels of a call as a graph, started again without the host.
TEST_F(CudaAttention, GivesTheSameFromAGraph) {
  const Shape shape{1, 2, 300, 64};
  const Tensor q = RandomTensor(shape, 0.5, 1).To(kGpu), k = RandomTensor(shape, 0.5, 2).To(kGpu),
               v = RandomTensor(shape, 1, 3).To(kGpu),
               grad_out = RandomTensor(shape, 1, 4).To(kGpu);
  for (const char* attention : {"linear", "exact"}) {
    for (const bool causal : {false, true}) {
      const AttentionOptions options{
          .attention = attention, .causal = causal, .features = {.features = 64}};
      const attention::Call call = attention::CheckCall({q, k, v}, options, *gpu_);
      Tensor out(shape, DataType::kF32, kGpu), grad_q = out.Clone(), grad_k = out.Clone(),
                                               grad_v = out.Clone();
      const Tally tally(*gpu_);
      attention::Trace trace(call), recorded(call);
      const auto run = [&](attention::Trace& to) {
        attention::Forward(call, {.out = out, .trace = &to, .tally = tally.At()}, *gpu_);
        attention::Backward(call, to,
                            {.out = out,
                             .grad_out = grad_out,
                             .grad_q = grad_q,
                             .grad_k = grad_k,
                             .grad_v = grad_v},
                            tally.At(), *gpu_);
      };
      run(trace);
      const Tensor first = out.Clone(), first_gradient = grad_k.Clone();
      const DeviceGraph graph(*gpu_, [&] { run(recorded); });
      for (int turn = 0; turn < 2; ++turn) {
        for (const Tensor* result : {&out, &grad_k}) {
          const Tensor zeros(shape, DataType::kF32, kGpu);
          CopyBytes(
              result->view().data() == out.view().data() ? out.view().data() : grad_k.view().data(),
              kGpu, zeros.view().data(), kGpu, zeros.Bytes());
        }
        graph.Launch();
        ExpectSameBits(out, first);
        ExpectSameBits(grad_k, first_gradient);
      }
      EXPECT_EQ(tally.Read()[0].unusable, 0);
    }
  }
}

}  // namespace
}  // namespace favor::attention_on_gpu
