// Attention and its gradients on a GPU against the reference in double. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "attention/attend.h"
#include "core/device.h"
#include "core/device_graph.h"
#include "favor/error.h"
#include "tests/attention/gradient_case.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};

Tensor OnCpu(const Tensor& tensor) { return tensor.To(Device{}).To(DataType::kF64); }

double NormOf(const Tensor& x) {
  double size = 0;
  for (int64_t i = 0; i < x.shape().Elements(); ++i) size += std::pow(x.Data<double>()[i], 2);
  return std::sqrt(size);
}

// ‖got − want‖/‖want‖; relative to `scale`, if it is larger than ‖want‖.
double ErrorOf(const Tensor& got, const Tensor& want, double scale = 1e-15) {
  Tensor difference = OnCpu(got);
  const Tensor b = OnCpu(want);
  for (int64_t i = 0; i < b.shape().Elements(); ++i)
    difference.Data<double>()[i] -= b.Data<double>()[i];
  return NormOf(difference) / std::max(scale, NormOf(b));
}

void ExpectSameBits(const Tensor& a, const Tensor& b) {
  const Tensor one = a.To(Device{}), other = b.To(Device{});
  ASSERT_EQ(one.shape(), other.shape());
  EXPECT_EQ(std::memcmp(one.view().data(), other.view().data(), static_cast<size_t>(one.Bytes())),
            0);
}

// What the error says; empty: there is none.
std::string MessageOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A call with its gradients, on any device.
struct Pass {
  Pass(const Call& call, const AttentionOptions& options, const Context& context, DataType type) {
    const Device device = context.device();
    const auto there = [&](const Tensor& tensor) { return tensor.To(type).To(device); };
    const Tensor q = there(call.q), k = there(call.k), v = there(call.v),
                 grad_out = there(call.grad_out);
    AttentionTrace trace;
    out = Attend(q, k, v, options, context, {.report = &report, .trace = &trace});
    gradients = AttendBackward({q, k, v, out, grad_out}, options, context, &trace);
  }

  AttentionReport report;
  Tensor out;
  AttentionGradients gradients;
};

// Bounds of ErrorOf. Inputs of 16 bits are compared with the reference of the same, rounded inputs:
// what is left are weights and sums that tensor cores round.
struct Bounds {
  double out, gradients;
};
Bounds BoundsOf(DataType type) {
  return type == DataType::kF32 ? Bounds{1e-4, 1e-4} : Bounds{1e-2, 2e-2};
}

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    gpu_.emplace(ContextOptions{.device = kGpu});
  }

  void ExpectReference(const Case& c, DataType type) {
    SCOPED_TRACE(c.Name() + " " + std::string(Name(type)));
    Call call(c);
    for (Tensor* array : {&call.q, &call.k, &call.v, &call.grad_out})
      *array = array->To(type).To(DataType::kF32);
    const Pass got(call, call.options, *gpu_, type);
    AttentionOptions reference = call.options;
    reference.reference = true;
    const Pass want(call, reference, cpu_, DataType::kF64);
    const Bounds bounds = BoundsOf(type);
    EXPECT_LE(ErrorOf(got.out, want.out), bounds.out) << "out";
    // One key: gradients of weights are 0, and what is rounded shows next to dO.
    const double scale =
        c.window == 0 && c.attention == "exact-window" ? NormOf(OnCpu(call.grad_out)) : 1e-15;
    EXPECT_LE(ErrorOf(got.gradients.q, want.gradients.q, scale), bounds.gradients) << "grad_q";
    EXPECT_LE(ErrorOf(got.gradients.k, want.gradients.k, scale), bounds.gradients) << "grad_k";
    EXPECT_LE(ErrorOf(got.gradients.v, want.gradients.v), bounds.gradients) << "grad_v";
    if (c.forgets) {
      EXPECT_LE(ErrorOf(got.gradients.log_decay, want.gradients.log_decay), bounds.gradients)
          << "grad_log_decay";
    }
    EXPECT_EQ(got.report.empty_rows, want.report.empty_rows);
    EXPECT_EQ(got.report.nonpositive_rows, want.report.nonpositive_rows);
  }

  const Context cpu_;
  std::optional<Context> gpu_;
};

// Every variation of a call of one kind.
std::vector<Case> Variations(const Case& base) {
  std::vector<Case> cases;
  const auto add = [&](const std::function<void(Case&)>& change) {
    Case c = base;
    change(c);
    cases.push_back(c);
  };
  for (const bool causal : {false, true}) {
    add([&](Case& c) { c.causal = causal; });
    add([&](Case& c) { c.causal = causal, c.masked = true; });
    add([&](Case& c) { c.causal = causal, c.grouped = true; });
    add([&](Case& c) { c.causal = causal, c.normalize = false; });
    add([&](Case& c) { c.causal = causal, c.masked = c.grouped = true, c.value_dim = 24; });
  }
  add([](Case& c) { c.cross = true; });
  add([](Case& c) { c.cross = c.masked = c.grouped = true, c.value_dim = 72; });
  if (base.attention != "linear") return cases;
  add([](Case& c) { c.centred = true; });
  add([](Case& c) { c.centred = true, c.normalize = false; });
  for (const bool causal : {false, true})
    add([&](Case& c) { c.causal = causal, c.centred = c.frozen_mean = true; });
  add([](Case& c) { c.causal = c.forgets = true; });
  add([](Case& c) { c.causal = c.forgets = c.masked = c.grouped = true; });
  return cases;
}

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
}  // namespace favor
