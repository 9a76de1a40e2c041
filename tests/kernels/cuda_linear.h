// Calls of linear attention on a GPU, and the reference, token by token in double.
#ifndef FAVOR_TESTS_KERNELS_CUDA_LINEAR_H_
#define FAVOR_TESTS_KERNELS_CUDA_LINEAR_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/device_graph.h"
#include "core/device_work.h"
#include "core/tally.h"
#include "favor/error.h"
#include "favor/random.h"
#include "features/drawn_features.h"
#include "kernels/attention_checks.h"
#include "kernels/key_statistics.h"
#include "kernels/linear_attention_backward.h"

namespace favor::linear_on_gpu {

using kernels::AttentionProblem;
using kernels::StateTensors;

constexpr Device kGpu{DeviceType::kCuda, 0};

// A call, and how its arrays are drawn.
struct Case {
  std::string map = "positive";
  int64_t batch = 1, heads = 2, kv_heads = 2, query_length = 200, key_length = 200;
  int64_t dim = 16, value_dim = 16, features = 32;
  double deviation = 1;
  bool causal = false, normalize = true, masked = false, centred = false, own_mean = false;
  bool own_a = false;
  double decay = 0;  // the mean of −ℓ
  bool add = false;
  double least_denominator = 0;
  DataType type = DataType::kF32;
  bool fused = false;    // ω in bf16, which the fused kernels take
  bool keeps = false;    // gradients read the states that the forward call left
  bool loses = false;    // what it left is zeros when they read it
  bool settled = false;  // most rows give all their weight to one key

  std::string Name() const {
    return map + " " + std::to_string(batch) + "x" + std::to_string(heads) + "/" +
           std::to_string(kv_heads) + " lengths " + std::to_string(query_length) + "," +
           std::to_string(key_length) + " dims " + std::to_string(dim) + "," +
           std::to_string(value_dim) + " features " + std::to_string(features) + " sd " +
           std::to_string(deviation) + (causal ? " causal" : "") +
           (normalize ? "" : " unnormalised") + (masked ? " masked" : "") +
           (centred ? " centred" : "") + (own_a ? " own A" : "") +
           (decay > 0 ? " decay " + std::to_string(decay) : "") + (add ? " added" : "") + " " +
           std::string(favor::Name(type)) + (fused ? " fused" : "") + (keeps ? " keeping" : "");
  }
  FeaturePlan Plan() const {
    FeatureOptions options{
        .map = map, .features = features, .least_denominator = least_denominator};
    if (map.starts_with("local")) options.local_width = 2;
    if (fused) options.omega_type = OmegaType::kBF16;
    return FeaturePlan::Draw(options, heads, dim, /*seed=*/3);
  }
};

inline Tensor Draw(const Shape& shape, const char* name, double deviation, DataType type) {
  Tensor tensor(shape);
  std::vector<double> drawn(static_cast<size_t>(shape.Elements()));
  RandomStream(11, name).FillNormal(0, drawn);
  for (size_t i = 0; i < drawn.size(); ++i)
    tensor.Data<float>()[i] = static_cast<float>(deviation * drawn[i]);
  return tensor.To(type);
}

// The arrays of a call, on the CPU, in the type of the case.
struct Arrays {
  explicit Arrays(const Case& c)
      : q(Draw({c.batch, c.heads, c.query_length, c.dim}, "q", c.deviation, c.type)),
        k(Draw({c.batch, c.kv_heads, c.key_length, c.dim}, "k", c.deviation, c.type)),
        v(Draw({c.batch, c.kv_heads, c.key_length, c.value_dim}, "v", 1, c.type)),
        grad_out(Draw({c.batch, c.heads, c.query_length, c.value_dim}, "grad", 1, c.type)) {
    if (c.masked) {
      mask = Draw({c.batch, c.kv_heads, c.key_length}, "mask", 1, DataType::kF32);
      for (int64_t i = 0; i < mask.shape().Elements(); ++i)
        mask.Data<float>()[i] = mask.Data<float>()[i] > -0.5f && i % c.key_length > 2 ? 1.0f : 0.0f;
    }
    if (c.decay > 0) {
      log_decay = Draw({c.batch, c.heads, c.key_length}, "decay", c.decay, DataType::kF64);
      for (int64_t i = 0; i < log_decay.shape().Elements(); ++i)
        log_decay.Data<double>()[i] = -std::fabs(log_decay.Data<double>()[i]);
    }
  }

  Tensor q, k, v, grad_out, mask, log_decay;
};

// What a call leaves behind, on the CPU in double.
struct Results {
  Tensor out, log_sum, grad_q, grad_k, grad_v, grad_log_decay;
  TallyEntry tally;
};

inline Tensor InDouble(const Tensor& tensor) {
  return tensor.empty() ? Tensor() : tensor.To(Device{}).To(DataType::kF64);
}

// ‖a − b‖/‖b‖ over elements that are finite in b; those that are not must be equal. If `scale` is
// given, its norm counts in place of ‖b‖.
inline double RelativeError(const Tensor& a, const Tensor& b, const Tensor& scale = {}) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.shape().Elements(); ++i) {
    const double x = a.Data<double>()[i], y = b.Data<double>()[i];
    if (std::isfinite(y)) {
      difference += (x - y) * (x - y);
      size += y * y;
    } else if (x != y) {
      return INFINITY;
    }
  }
  if (!scale.empty()) {
    size = 0;
    for (int64_t i = 0; i < scale.shape().Elements(); ++i)
      size += scale.Data<double>()[i] * scale.Data<double>()[i];
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

// Rows [begin, end) of all arrays of queries or keys.
inline ConstView RowsOf(const ConstView& array, int64_t begin, int64_t end) {
  return array.empty() ? array : array.Range(2, begin, end - begin);
}

inline AttentionProblem PartOf(const AttentionProblem& problem, int64_t begin, int64_t end) {
  AttentionProblem part = problem;
  part.q = RowsOf(problem.q, begin, end);
  part.k = RowsOf(problem.k, begin, end);
  part.v = RowsOf(problem.v, begin, end);
  part.mask = RowsOf(problem.mask, begin, end);
  part.log_decay = RowsOf(problem.log_decay, begin, end);
  part.query_length = part.key_length = end - begin;
  return part;
}

// One call on a device: on the CPU in double, which runs the reference.
class Call {
 public:
  Call(const Case& c, const Arrays& arrays, const FeaturePlan& plan, const Context& context)
      : case_(c),
        context_(context),
        on_gpu_(context.device().type == DeviceType::kCuda),
        type_(on_gpu_ ? c.type : DataType::kF64),
        statistics_(on_gpu_ ? DataType::kF32 : DataType::kF64),
        plan_(plan),
        q_(On(arrays.q, type_)),
        k_(On(arrays.k, type_)),
        v_(On(arrays.v, type_)),
        grad_out_(On(arrays.grad_out, type_)),
        mask_(On(arrays.mask, DataType::kF32)),
        log_decay_(On(arrays.log_decay, DataType::kF64)),
        problem_{.q = q_,
                 .k = k_,
                 .v = v_,
                 .batch = c.batch,
                 .heads = c.heads,
                 .kv_heads = c.kv_heads,
                 .query_length = c.query_length,
                 .key_length = c.key_length,
                 .dim = c.dim,
                 .value_dim = c.value_dim,
                 .causal = c.causal,
                 .scale = 1 / std::sqrt(static_cast<double>(c.dim)),
                 .normalize = c.normalize},
        tally_(context) {
    if (!mask_.empty()) problem_.mask = mask_;
    if (!log_decay_.empty()) problem_.log_decay = log_decay_;
    if (c.centred) {
      key_mean_ = Zeros({c.batch, c.heads, c.dim}, DataType::kF64);
      kernels::FindKeyMeans({.problem = problem_, .mean = key_mean_}, context);
    }
    if (c.own_a) {
      oprf_a_ = Zeros({c.batch, c.heads}, DataType::kF64);
      kernels::FindOprfA({.problem = problem_, .key_mean = key_mean_, .oprf_a = oprf_a_}, context);
    }
  }

  Results Run() {
    kernels::CountUnusable({.problem = problem_, .key_mean = key_mean_, .tally = tally_.At()},
                           context_);
    const StateTensors states(case_.batch * case_.heads, Constants().width(), case_.value_dim,
                              context_);
    Tensor out = Zeros(grad_out_.shape(), type_),
           log_sum = Zeros({problem_.Groups(), case_.query_length}, statistics_);
    kernels::LinearAttention(
        {.call = {.problem = problem_, .out = out, .log_sum = log_sum, .tally = tally_.At()},
         .heads = Heads(),
         .states = case_.causal ? kernels::PrefixStates{} : states.views(),
         .kept = case_.keeps ? &kept_ : nullptr},
        context_);
    if (case_.loses) kept_.memory = Tensor(kept_.memory.shape(), DataType::kF32, context_.device());
    Results results = Backward(out, log_sum, states);
    context_.Wait();
    results.out = InDouble(out);
    results.log_sum = InDouble(log_sum);
    results.tally = tally_.Read()[0];
    return results;
  }

  const AttentionProblem& problem() const { return problem_; }
  const kernels::FeatureConstants& Constants() const { return features::ConstantsOf(plan_); }
  kernels::LinearHeads Heads() const {
    return {.features = Constants(), .oprf_a = oprf_a_, .key_mean = key_mean_};
  }
  Tally& tally() { return tally_; }
  const kernels::KeptStates& kept() const { return kept_; }
  Tensor Zeros(const Shape& shape, DataType type) const {
    return Tensor(shape, type, context_.device());
  }

 private:
  Tensor On(const Tensor& tensor, DataType type) const {
    return tensor.empty() ? Tensor() : tensor.To(type).To(context_.device());
  }

  Results Backward(const Tensor& out, const Tensor& log_sum, const StateTensors& states) {
    Tensor delta = Zeros(log_sum.shape(), statistics_);
    kernels::FindDeltas({.problem = problem_,
                         .out = out,
                         .grad_out = grad_out_,
                         .delta = delta,
                         .tally = tally_.At()},
                        context_);
    Tensor grad_q = Zeros(q_.shape(), type_), grad_k = Zeros(k_.shape(), type_),
           grad_v = Zeros(v_.shape(), type_), grad_log_decay;
    if (!log_decay_.empty()) grad_log_decay = Zeros(log_decay_.shape(), type_);
    for (int time = 0; time < (case_.add ? 2 : 1); ++time) {
      kernels::LinearAttentionBackward({.call = {.problem = problem_,
                                                 .out = out,
                                                 .grad_out = grad_out_,
                                                 .log_sum = log_sum,
                                                 .delta = delta,
                                                 .grad_q = grad_q,
                                                 .grad_k = grad_k,
                                                 .grad_v = grad_v,
                                                 .grad_log_decay = grad_log_decay,
                                                 .tally = tally_.At(),
                                                 .add = time > 0},
                                        .heads = Heads(),
                                        .states = states.views(),
                                        .kept = case_.keeps ? &kept_ : nullptr,
                                        .own_mean = case_.own_mean},
                                       context_);
    }
    context_.Wait();
    return {.grad_q = InDouble(grad_q),
            .grad_k = InDouble(grad_k),
            .grad_v = InDouble(grad_v),
            .grad_log_decay = InDouble(grad_log_decay)};
  }

  Case case_;
  const Context& context_;
  bool on_gpu_;
  DataType type_, statistics_;
  FeaturePlan plan_;
  Tensor q_, k_, v_, grad_out_, mask_, log_decay_, key_mean_, oprf_a_;
  AttentionProblem problem_;
  Tally tally_;
  kernels::KeptStates kept_;
};

class CudaLinear : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    context_.emplace(ContextOptions{.device = kGpu});
  }

  Results OnGpu(const Case& c, const Arrays& arrays) const {
    return Call(c, arrays, c.Plan(), *context_).Run();
  }
  // Outputs within `bound`, gradients within twice that or their own.
  void Expect(const Case& c, const Arrays& arrays, double bound) const {
    Expect(c, arrays, bound, 2 * bound);
  }
  void Expect(const Case& c, const Arrays& arrays, double bound, double gradient_bound) const {
    SCOPED_TRACE(c.Name());
    const Results want = Call(c, arrays, c.Plan(), cpu_).Run(), got = OnGpu(c, arrays);
    EXPECT_LE(RelativeError(got.out, want.out), bound);
    if (c.normalize) {
      EXPECT_LE(RelativeError(got.log_sum, want.log_sum), bound);
    }
    // One key, also one that outweighs the others, or one feature: gradients of weights are 0, and
    // what is rounded shows next to dO.
    const bool fixed = c.normalize && (c.key_length == 1 || c.features == 1 || c.settled);
    const Tensor grad_out = fixed ? InDouble(arrays.grad_out) : Tensor();
    EXPECT_LE(RelativeError(got.grad_q, want.grad_q, grad_out), gradient_bound);
    EXPECT_LE(RelativeError(got.grad_k, want.grad_k, grad_out), gradient_bound);
    EXPECT_LE(RelativeError(got.grad_v, want.grad_v), gradient_bound);
    if (!want.grad_log_decay.empty()) {
      const bool exact = c.type == DataType::kF32;
      EXPECT_LE(RelativeError(got.grad_log_decay, want.grad_log_decay,
                              exact ? Tensor() : Terms(want, arrays)),
                exact ? gradient_bound : gradient_bound * Growth(c));
    }
    EXPECT_EQ(got.tally.empty, want.tally.empty);
    EXPECT_EQ(got.tally.unusable, want.tally.unusable);
    EXPECT_EQ(got.tally.nonpositive, want.tally.nonpositive);
  }
  // The sizes of what gradients of ℓ are sums of: themselves, and dv·v of each key.
  static Tensor Terms(const Results& want, const Arrays& arrays) {
    const Tensor v = InDouble(arrays.v);
    const int64_t columns = v.shape()[3], keys = v.shape().Elements() / columns,
                  own = want.grad_log_decay.shape().Elements();
    Tensor terms({own + keys}, DataType::kF64);
    std::copy_n(want.grad_log_decay.Data<double>(), own, terms.Data<double>());
    for (int64_t key = 0; key < keys; ++key) {
      double& product = terms.Data<double>()[own + key];
      product = 0;
      for (int64_t i = key * columns; i < (key + 1) * columns; ++i)
        product += want.grad_v.Data<double>()[i] * v.Data<double>()[i];
    }
    return terms;
  }
  // Gradients of ℓ are running sums over a segment, here of up to 2000 rows, in which roundings of
  // 16 bits add up like a random walk.
  static double Growth(const Case& c) {
    return std::max(1.0, std::sqrt(static_cast<double>(c.key_length) / 300));
  }
  void Expect(const Case& c) const { Expect(c, Arrays(c), c.type == DataType::kF32 ? 1e-4 : 1e-2); }

  const Context cpu_;
  std::optional<Context> context_;
};
}  // namespace favor::linear_on_gpu

#endif  // FAVOR_TESTS_KERNELS_CUDA_LINEAR_H_
