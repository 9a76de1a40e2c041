// Calls of attention on a GPU with their gradients, and the reference in double.
#ifndef FAVOR_TESTS_ATTENTION_CUDA_ATTENTION_H_
#define FAVOR_TESTS_ATTENTION_CUDA_ATTENTION_H_

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

namespace favor::attention_on_gpu {

constexpr Device kGpu{DeviceType::kCuda, 0};

inline Tensor OnCpu(const Tensor& tensor) { return tensor.To(Device{}).To(DataType::kF64); }

inline double NormOf(const Tensor& x) {
  double size = 0;
  for (int64_t i = 0; i < x.shape().Elements(); ++i) size += std::pow(x.Data<double>()[i], 2);
  return std::sqrt(size);
}

// ‖got − want‖/‖want‖; relative to `scale`, if it is larger than ‖want‖.
inline double ErrorOf(const Tensor& got, const Tensor& want, double scale = 1e-15) {
  Tensor difference = OnCpu(got);
  const Tensor b = OnCpu(want);
  for (int64_t i = 0; i < b.shape().Elements(); ++i)
    difference.Data<double>()[i] -= b.Data<double>()[i];
  return NormOf(difference) / std::max(scale, NormOf(b));
}

inline void ExpectSameBits(const Tensor& a, const Tensor& b) {
  const Tensor one = a.To(Device{}), other = b.To(Device{});
  ASSERT_EQ(one.shape(), other.shape());
  EXPECT_EQ(std::memcmp(one.view().data(), other.view().data(), static_cast<size_t>(one.Bytes())),
            0);
}

// What the error says; empty: there is none.
inline std::string MessageOf(const std::function<void()>& body) {
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
inline Bounds BoundsOf(DataType type) {
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
inline std::vector<Case> Variations(const Case& base) {
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
}  // namespace favor::attention_on_gpu

#endif  // FAVOR_TESTS_ATTENTION_CUDA_ATTENTION_H_
