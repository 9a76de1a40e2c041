// Calls of attention with gradients, in every variation, for the tests of gradients.
#ifndef FAVOR_TESTS_ATTENTION_GRADIENT_CASE_H_
#define FAVOR_TESTS_ATTENTION_GRADIENT_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/simd.h"
#include "favor/favor.h"
#include "tests/attention/oracle.h"

namespace favor {

// One call with gradients: shapes, options and arrays.
struct Case {
  std::string attention = "linear", map = "positive";
  bool causal = false, masked = false, cross = false, grouped = false, normalize = true;
  bool centred = false, frozen_mean = false;
  OmegaType omega_type = OmegaType::kF32;
  bool forgets =
      false;           // log_decay of every query head: mild, strong and, at some tokens, nearly 0
  int64_t window = 3;  // of kinds that have one
  int64_t length = 9, dim = 6, value_dim = 5, features = 8;
  double deviation = 0.9;

  bool TakesWindow() const {
    return attention == "exact-window" || attention == "window" || attention == "hybrid";
  }
  bool TakesPlan() const {
    return attention == "linear" || attention == "window" || attention == "hybrid";
  }
  // Queries and keys may be of different number.
  bool TakesCross() const { return attention != "identity" && !TakesWindow(); }

  std::string Name() const {
    std::string name = attention == "linear" ? map : attention + (TakesPlan() ? " " + map : "");
    name += causal ? " causal" : "";
    name += masked ? " masked" : "";
    name += cross ? " cross" : "";
    name += grouped ? " grouped" : "";
    name += forgets ? " forgetting" : "";
    name += TakesWindow() ? " of " + std::to_string(window) : "";
    name += normalize ? "" : " unnormalised";
    return name + (centred ? frozen_mean ? " centred on a frozen mean" : " centred" : "");
  }
};

class Call {
 public:
  explicit Call(const Case& c)
      : heads_(c.grouped ? 4 : 2),
        kv_heads_(c.grouped ? 2 : heads_),
        keys_(c.cross ? c.length + 4 : c.length),
        q(RandomTensor({2, heads_, c.length, c.dim}, c.deviation, 1)),
        k(RandomTensor({2, kv_heads_, keys_, c.dim}, c.deviation, 2)),
        v(RandomTensor({2, kv_heads_, keys_, c.value_dim}, 1, 3)),
        grad_out(RandomTensor({2, heads_, c.length, c.value_dim}, 1, 4)),
        log_decay({2, heads_, keys_}, DataType::kF64),
        mask_({2, kv_heads_, keys_}),
        mean_(RandomTensor({heads_, c.dim}, 0.4, 5)) {
    options = {.attention = c.attention, .causal = c.causal, .renormalize = c.normalize};
    if (c.TakesPlan()) {
      FeatureOptions features{.map = c.map, .features = c.features, .omega_type = c.omega_type};
      if (c.map == "oprf") features.oprf_a = {-0.1};
      // Away from 0: where a kernel vanishes, so does the denominator of a row that sees few keys.
      if (c.map.starts_with("poly-")) features.coefficients = {4, 1, 0.5, 0.25};
      // Wide masks: frequencies that differences can follow, and denominators away from 0.
      if (c.map.starts_with("local-")) features.local_width = c.map == "local-ball" ? 2 : 30;
      if (c.map == "local-ball") features.local_smoothing = 2;
      options.plan = FeaturePlan::Draw(features, heads_, c.dim, 7);
      options.center_keys = c.centred;
      if (c.frozen_mean) options.key_mean = mean_;
    }
    if (c.TakesWindow()) options.kind_options = {{"window", c.window}};
    for (int64_t i = 0; i < log_decay.shape().Elements(); ++i) {
      log_decay.Data<double>()[i] = -0.01 - (i % 7 == 3   ? 12
                                             : i % 5 == 0 ? 0
                                                          : 0.1 * static_cast<double>(i % 4));
    }
    if (c.forgets) options.log_decay = log_decay;
    // The first key is masked too: the first causal row then sees no key.
    for (int64_t i = 0; i < mask_.shape().Elements(); ++i)
      mask_.Data<float>()[i] = i % keys_ == 0 || i % 3 == 1 ? 0.0f : 1.0f;
    if (c.masked) options.key_mask = mask_;
  }

  Tensor Forward(const Context& context) const { return Attend(q, k, v, options, context); }
  AttentionGradients Gradients(const Context& context) const {
    AttentionTrace trace;
    const bool reference = options.reference;
    Tensor out({2, heads_, q.shape()[2], v.shape()[3]},
               reference ? DataType::kF64 : DataType::kF32);
    AttendInto({q, k, v}, options, context, out, {.trace = &trace});
    return AttendBackward({q, k, v, out, grad_out}, options, context, &trace);
  }
  // Σ grad_out·out, in double.
  double Loss(const Context& context) const {
    const Tensor out = Forward(context);
    double sum = 0;
    for (int64_t i = 0; i < out.shape().Elements(); ++i)
      sum += out.Data<double>()[i] * grad_out.Data<float>()[i];
    return sum;
  }

 private:
  int64_t heads_, kv_heads_, keys_;

 public:
  Tensor q, k, v, grad_out, log_decay;
  AttentionOptions options;

 private:
  Tensor mask_, mean_;
};

inline double Largest(const Tensor& tensor) { return LargestAbsolute(tensor); }

// The largest difference between two gradients, relative to the largest gradient.
inline double RelativeError(const Tensor& got, const Tensor& want) {
  return LargestDifference(got, want) / std::max(Largest(want), 1e-30);
}

// Compares all gradients, each relative to its largest element; absolutely if all are 0.
inline void ExpectNear(const AttentionGradients& got, const AttentionGradients& want, double bound,
                       const std::string& where = "") {
  const auto check = [&](const Tensor& a, const Tensor& b, const char* name) {
    EXPECT_LE(LargestDifference(a, b), bound * (Largest(b) + 1e-9)) << name << " " << where;
  };
  check(got.q, want.q, "q");
  check(got.k, want.k, "k");
  check(got.v, want.v, "v");
  if (!want.log_decay.empty()) check(got.log_decay, want.log_decay, "log_decay");
}

// The gradients of the reference against central differences, in double.
inline void ExpectCentralDifferences(const Case& c) {
  SCOPED_TRACE(c.Name());
  const Context context({.threads = 1});
  Call call(c);
  call.options.reference = true;
  call.q = call.q.To(DataType::kF64);
  call.k = call.k.To(DataType::kF64);
  call.v = call.v.To(DataType::kF64);
  const AttentionGradients gradients = call.Gradients(context);
  const auto check = [&](Tensor& x, const Tensor& gradient, const char* name) {
    Tensor differences(x.shape(), DataType::kF64);
    const double step = 2e-6;
    for (int64_t i = 0; i < x.shape().Elements(); ++i) {
      const double value = x.Data<double>()[i];
      x.Data<double>()[i] = value + step;
      const double up = call.Loss(context);
      x.Data<double>()[i] = value - step;
      const double down = call.Loss(context);
      x.Data<double>()[i] = value;
      differences.Data<double>()[i] = (up - down) / (2 * step);
    }
    EXPECT_LT(LargestDifference(gradient, differences), 1e-6 * (Largest(differences) + 1e-2))
        << name;
  };
  check(call.q, gradients.q, "q");
  check(call.k, gradients.k, "k");
  check(call.v, gradients.v, "v");
  if (c.forgets) check(call.log_decay, gradients.log_decay, "log_decay");
}

// Compares the float kernels of every SIMD target with the reference.
inline void ExpectReferenceOnEverySimdTarget(Call& call, double bound) {
  const Context context({.threads = 2});
  call.options.reference = true;
  const AttentionGradients want = call.Gradients(context);
  call.options.reference = false;
  for (const std::string& simd : SimdNames()) {
    UseSimd(simd);
    ExpectNear(call.Gradients(context), want, bound, simd);
  }
  UseSimd(SimdNames().front());
}

}  // namespace favor

#endif  // FAVOR_TESTS_ATTENTION_GRADIENT_CASE_H_
