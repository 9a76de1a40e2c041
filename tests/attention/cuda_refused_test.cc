// What attention on a GPU refuses, and how it fails. What needs a GPU is skipped without one.
#include <gtest/gtest.h>

#include "tests/attention/cuda_attention.h"

namespace favor::attention_on_gpu {
namespace {

TEST_F(CudaAttention, ExplainsNumbersThatItCannotComputeWith) {
  Tensor q = RandomTensor({2, 40, 16}, 0.5, 1), k = RandomTensor({2, 40, 16}, 0.5, 2),
         v = RandomTensor({2, 40, 8}, 1, 3);
  const auto message = [&](const AttentionOptions& options) {
    return MessageOf([&] { Attend(q.To(kGpu), k.To(kGpu), v.To(kGpu), options, *gpu_); });
  };
  for (const char* attention : {"linear", "exact"}) {
    Tensor mask({40});
    std::fill_n(mask.Data<float>(), 40, 1.0f);
    AttentionOptions options{.attention = attention, .key_mask = mask};
    k.Data<float>()[7 * 16 + 3] = NAN;
    EXPECT_EQ(message(options), "attend: k: given NaN or infinity in row 7, expected finite values")
        << attention;
    mask.Data<float>()[7] = 0;
    EXPECT_EQ(message(options), "") << attention;
    v.Data<float>()[3 * 8] = 3e38f;
    EXPECT_NE(message(options).find("v: given values up to 3e+38"), std::string::npos) << attention;
    v.Data<float>()[3 * 8] = 1;
  }
}

// The fused kernels read inputs once: what they doubt is checked afterwards.
TEST_F(CudaAttention, FusedKernelsExplainNumbersThatTheyCannotComputeWith) {
  constexpr int64_t kDim = 64;
  const auto draw = [](uint64_t seed) { return RandomTensor({2, 300, kDim}, 0.5, seed); };
  const Tensor q = draw(1), k = draw(2), v = draw(3);
  for (const char* map : {"positive", "relu"}) {
    for (const bool causal : {false, true}) {
      const AttentionOptions options{.causal = causal,
                                     .features = {.map = map, .omega_type = OmegaType::kBF16}};
      const auto message = [&](const char* name, int64_t row, float value) {
        Tensor arrays[] = {q.Clone(), k.Clone(), v.Clone()};
        arrays[std::string("qkv").find(name)].Data<float>()[row * kDim + 5] = value;
        for (Tensor& array : arrays) array = array.To(DataType::kBF16).To(kGpu);
        return MessageOf([&] { Attend(arrays[0], arrays[1], arrays[2], options, *gpu_); });
      };
      EXPECT_EQ(message("q", 0, 0.5f), "");
      for (const char* name : {"q", "k", "v"}) {
        for (const int64_t row : {0, 64, 200, 299}) {
          SCOPED_TRACE(std::string(map) + (causal ? " causal " : " ") + name + " " +
                       std::to_string(row));
          for (const float value : {NAN, INFINITY, -INFINITY})
            EXPECT_NE(message(name, row, value)
                          .find(std::string(name) + ": given NaN or infinity in row " +
                                std::to_string(row)),
                      std::string::npos);
          if (std::string(name) != "v") {
            EXPECT_NE(message(name, row, 1e20f), "");
          }
        }
      }
    }
  }
}

// Calls that stand for all that launch kernels: fused and general, with and without forgetting.
std::vector<AttentionOptions> LaunchingCalls(const Tensor& log_decay) {
  const FeatureOptions fused{.omega_type = OmegaType::kBF16}, general{.map = "hyperbolic"};
  return {{.features = fused},
          {.causal = true, .log_decay = log_decay, .features = fused},
          {.causal = true, .log_decay = log_decay, .features = general},
          {.features = general, .center_keys = true},
          {.attention = "exact"}};
}

TEST_F(CudaAttention, AFailureOfAnyCallIsOneLineAndTheNextCallIsRight) {
  constexpr int64_t kMostCalls = 1000;
  const auto draw = [](uint64_t seed) {
    return RandomTensor({2, 130, 64}, 0.5, seed).To(DataType::kBF16).To(kGpu);
  };
  const Tensor q = draw(1), k = draw(2), v = draw(3), grad_out = draw(4);
  Tensor log_decay({2, 130});
  std::fill_n(log_decay.Data<float>(), 2 * 130, -0.1f);
  log_decay = log_decay.To(kGpu);
  for (const AttentionOptions& options : LaunchingCalls(log_decay)) {
    const auto results = [&] {
      AttentionTrace trace;
      Tensor out = Attend(q, k, v, options, *gpu_, {.trace = &trace});
      AttentionGradients gradients =
          AttendBackward({q, k, v, out, grad_out}, options, *gpu_, &trace);
      return std::pair{std::move(out), std::move(gradients)};
    };
    const auto want = results();
    for (const bool for_memory : {false, true}) {
      int64_t calls = 0;
      for (; calls < kMostCalls; ++calls) {
        internal::FailGpuCall(calls, for_memory);
        const std::string message = MessageOf([&] { results(); });
        internal::FailGpuCall(-1, false);
        if (message.empty()) break;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_TRUE(message.find(for_memory ? "out of memory" : "unknown error") !=
                        std::string::npos ||
                    message.find("could not be allocated on the GPU") != std::string::npos)
            << message;
        if (calls % 7 > 0) continue;
        const auto again = results();
        ExpectSameBits(again.first, want.first);
        ExpectSameBits(again.second.k, want.second.k);
      }
      EXPECT_GT(calls, 10);
      EXPECT_LT(calls, kMostCalls);
    }
  }
}

// Needs no GPU: arrays that claim to be on one are refused before they are read.
class CudaRefusals : public testing::Test {
 protected:
  ConstView On(const Device& device, DataType type = DataType::kF32, int64_t step = 1) const {
    return {memory_.view().data(), type, {2, 8, 4}, {64, 8, step}, device};
  }
  std::string MessageFor(const ConstView& q, const ConstView& k, const ConstView& v,
                         const AttentionOptions& options = {}) const {
    return MessageOf([&] { Attend(q, k, v, options, context_); });
  }

  const Tensor memory_{Shape{1024}};
  const Context context_;
};

TEST_F(CudaRefusals, ArraysOnTwoDevices) {
  EXPECT_EQ(MessageFor(On(kGpu), On({}), On({})),
            "attend: given q on cuda:0 and k on cpu, expected all on one device");
  EXPECT_EQ(MessageFor(On(kGpu), On(kGpu), On({DeviceType::kCuda, 1})),
            "attend: given q on cuda:0 and v on cuda:1, expected all on one device");
  EXPECT_EQ(MessageFor(On({}), On({}), On(kGpu)),
            "attend: given q on cpu and v on cuda:0, expected all on one device");
  EXPECT_EQ(MessageFor(On(kGpu), On(kGpu), On(kGpu)),
            "attend: given arrays on cuda:0 and a context on cpu, expected both on one device");
}

TEST_F(CudaRefusals, TypesAndStridesThatKernelsDoNotRead) {
  EXPECT_EQ(MessageFor(On(kGpu, DataType::kF64), On(kGpu), On(kGpu)),
            "attend: q: given f64 on cuda:0, expected f32, f16 or bf16");
  EXPECT_EQ(MessageFor(On(kGpu, DataType::kBF16), On(kGpu), On(kGpu, DataType::kBF16)),
            "attend: given q bf16, k f32 and v bf16 on cuda:0, expected one type");
  EXPECT_EQ(MessageFor(On(kGpu), On(kGpu), On(kGpu, DataType::kF32, 2)),
            "attend: v: given elements of a row 2 apart on cuda:0, expected them next to each "
            "other");
}

TEST_F(CudaRefusals, WhatRunsOnTheCpuOnly) {
  const auto message = [&](const AttentionOptions& options) {
    return MessageFor(On(kGpu), On(kGpu), On(kGpu), options);
  };
  EXPECT_EQ(message({.reference = true}),
            "reference: given arrays on cuda:0, it runs on the cpu only");
  EXPECT_EQ(message({.compat = Compat::kTorch}),
            "compat: given arrays on cuda:0, it runs on the cpu only");
  for (const char* kind : {"uniform", "window", "hybrid"})
    EXPECT_EQ(message({.attention = kind}),
              std::string(kind) + " attention: given arrays on cuda:0, it runs on the cpu only");
}

TEST_F(CudaRefusals, GradientsOnAnotherDevice) {
  const Tensor q({2, 8, 4}), out({2, 8, 4});
  EXPECT_EQ(MessageOf([&] {
              AttendBackward({q, q, q, out, On(kGpu)}, {}, context_);
            }).substr(0, 73),
            "attend backward: grad_out: given an array on cuda:0, expected one on cpu");
  Tensor grad({2, 8, 4}), other({2, 8, 4});
  const View there(grad.view().data(), DataType::kF32, grad.shape(), RowMajorStrides(grad.shape()),
                   kGpu);
  EXPECT_EQ(MessageOf([&] {
              AttendBackwardInto({q, q, q, out, out}, {}, context_, nullptr, {there, other, other});
            }),
            "attend backward: grad_q: given f32 [2, 8, 4] on cuda:0, expected f32 [2, 8, 4] on the "
            "cpu");
}

TEST_F(CudaRefusals, StatesAndArraysOnTwoDevices) {
  AttentionState state(FeaturePlan::Draw({.features = 8}, 2, 4, 1), {.value_dim = 4});
  EXPECT_EQ(state.device(), Device{});
  EXPECT_EQ(MessageOf([&] { state.Append(On(kGpu), On(kGpu), context_); }),
            "state: k: given an array on cuda:0, expected one on cpu");
  EXPECT_EQ(MessageOf([&] { state.Attend(On(kGpu), context_); }),
            "state: q: given an array on cuda:0, expected one on cpu");
  if (!ListGpus().empty()) return;
  EXPECT_NE(MessageOf([&] { state.To(kGpu); }), "");
  EXPECT_NE(MessageOf([&] { AttentionState(state.plan(), {.value_dim = 4, .device = kGpu}); }), "");
}

}  // namespace
}  // namespace favor::attention_on_gpu
