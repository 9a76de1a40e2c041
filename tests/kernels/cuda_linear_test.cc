// Linear attention on a GPU against the reference, token by token in double. Skipped if there is no
// GPU.
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

namespace favor {
namespace {

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
           std::string(favor::Name(type)) + (fused ? " fused" : "");
  }
  FeaturePlan Plan() const {
    FeatureOptions options{
        .map = map, .features = features, .least_denominator = least_denominator};
    if (map.starts_with("local")) options.local_width = 2;
    if (fused) options.omega_type = OmegaType::kBF16;
    return FeaturePlan::Draw(options, heads, dim, /*seed=*/3);
  }
};

Tensor Draw(const Shape& shape, const char* name, double deviation, DataType type) {
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

Tensor InDouble(const Tensor& tensor) {
  return tensor.empty() ? Tensor() : tensor.To(Device{}).To(DataType::kF64);
}

// ‖a − b‖/‖b‖ over elements that are finite in b; those that are not must be equal. If `scale` is
// given, its norm counts in place of ‖b‖.
double RelativeError(const Tensor& a, const Tensor& b, const Tensor& scale = {}) {
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
         .states = case_.causal ? kernels::PrefixStates{} : states.views()},
        context_);
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

TEST_F(CudaLinear, EveryMapEqualsTheReference) {
  for (const FeatureMapInfo& map : Maps()) {
    if (map.name == "poly-sum" || map.name == "poly-sketch") continue;
    for (const bool causal : {false, true}) {
      // Signed maps may have denominators near 0, which say nothing about sums.
      const bool normalize = map.nonnegative || map.name.substr(0, 6) == "taylor";
      Case c{.map = std::string(map.name), .causal = causal, .normalize = normalize};
      if (!map.has_omega) c.dim = 8;
      c.deviation = map.kernel == KernelFamily::kGeneralized ? 1 : 0.5;
      Expect(c);
    }
  }
}

TEST_F(CudaLinear, EverySizeEqualsTheReference) {
  for (const bool causal : {false, true}) {
    Expect({.query_length = 1,
            .key_length = 1,
            .dim = 1,
            .value_dim = 1,
            .features = 1,
            .causal = causal});
    Expect({.batch = 2,
            .heads = 3,
            .kv_heads = 1,
            .query_length = 65,
            .key_length = 65,
            .dim = 5,
            .value_dim = 7,
            .features = 33,
            .causal = causal});
    Expect({.map = "hyperbolic",
            .heads = 1,
            .kv_heads = 1,
            .query_length = 130,
            .key_length = 130,
            .dim = 256,
            .value_dim = 256,
            .features = 200,
            .deviation = 0.5,
            .causal = causal});
    Expect({.heads = 1,
            .kv_heads = 1,
            .query_length = 70,
            .key_length = 70,
            .dim = 64,
            .value_dim = 3,
            .features = 1024,
            .deviation = 2,
            .causal = causal});
    Expect({.batch = 2,
            .heads = 4,
            .query_length = 333,
            .key_length = 333,
            .dim = 64,
            .value_dim = 64,
            .features = 64,
            .causal = causal,
            .masked = true});
  }
  Expect({.query_length = 300, .key_length = 77});
  Expect({.query_length = 3, .key_length = 500, .masked = true});
}

TEST_F(CudaLinear, EveryOptionEqualsTheReference) {
  for (const bool causal : {false, true}) {
    Expect({.causal = causal, .normalize = false, .masked = true});
    Expect({.causal = causal, .masked = true, .centred = true, .own_mean = true});
    Expect({.heads = 4, .causal = causal, .normalize = false, .centred = true, .own_mean = true});
    Expect({.causal = causal, .normalize = false, .centred = true});
    Expect({.map = "oprf", .causal = causal, .own_a = true});
    Expect({.map = "oprf", .causal = causal, .centred = true, .own_a = true});
    Expect({.heads = 4, .causal = causal, .add = true});
    for (const DataType type : {DataType::kBF16, DataType::kF16}) {
      Expect({.heads = 4,
              .dim = 64,
              .value_dim = 64,
              .features = 128,
              .causal = causal,
              .masked = true,
              .type = type});
    }
  }
}

// A call that the fused kernels take, of tiles of 64 rows, columns and features.
Case FusedCase(const std::string& map, bool causal) {
  return {.map = map,
          .query_length = 300,
          .key_length = 300,
          .dim = 64,
          .value_dim = 64,
          .features = 256,
          .causal = causal,
          .type = DataType::kBF16,
          .fused = true};
}

TEST_F(CudaLinear, FusedKernelsEqualTheReference) {
  for (const char* map : {"positive", "relu", "oprf"}) {
    for (const bool causal : {false, true}) {
      const Case c = FusedCase(map, causal);
      for (const int64_t features : {1, 64, 65, 128, 150, 256}) {
        Case other = c;
        other.features = features;
        other.masked = features == 65;
        Expect(other);
      }
      for (const int64_t length : {1, 63, 64, 65, 129, 2000}) {
        Case other = c;
        other.batch = length == 129 || length == 2000 ? 40 : 1;  // few segments for each head
        other.query_length = other.key_length = length;
        other.features = 64;
        Expect(other);
      }
      for (const int64_t dim : {8, 40, 72, 128}) {
        Case other = c;
        other.dim = dim;
        other.value_dim = dim == 40 ? 128 : dim == 128 ? 16 : dim;
        other.features = dim == 72 ? 60 : 128;
        other.masked = dim == 40;
        Expect(other);
      }
      Case shared = c;
      shared.heads = 4;
      Expect(shared);
    }
  }
  Case cross = FusedCase("positive", false);
  cross.query_length = 70;
  Expect(cross);
  cross.key_length = 3;
  Expect(cross);
}

TEST_F(CudaLinear, FusedKernelsAreExactAtAnyNorm) {
  for (const bool causal : {false, true}) {
    for (const int64_t batch : {1, 70}) {  // segments of one chunk, or of many
      for (const double deviation : {0.1, 2.0, 4.0, 8.0}) {
        Case c = FusedCase("positive", causal);
        c.batch = batch;
        c.deviation = deviation;
        c.query_length = c.key_length = 500;
        Expect(c);
      }
    }
  }
}

TEST_F(CudaLinear, FusedKernelsGiveTheSameBitsFromRunToRun) {
  for (const bool causal : {false, true}) {
    Case c = FusedCase("positive", causal);
    c.heads = c.kv_heads = 40;
    c.query_length = c.key_length = 1000;
    const Arrays arrays(c);
    const Results first = OnGpu(c, arrays), again = OnGpu(c, arrays);
    for (const auto part :
         {&Results::out, &Results::log_sum, &Results::grad_q, &Results::grad_k, &Results::grad_v}) {
      const Tensor &a = first.*part, &b = again.*part;
      EXPECT_EQ(std::memcmp(a.Data<double>(), b.Data<double>(), static_cast<size_t>(a.Bytes())), 0);
    }
  }
}

// Segments that the fused kernels must leave to the general ones.
TEST_F(CudaLinear, FusedKernelsHandOverWhatTheyLose) {
  Case c = FusedCase("positive", true);
  c.heads = c.kv_heads = 1;
  c.deviation = 8;
  c.settled = true;
  for (const int64_t place : {40, 63, 64, 201, 299}) {
    Arrays arrays(c);
    Tensor k = arrays.k.To(DataType::kF32);
    std::fill_n(k.Data<float>() + place * c.dim, c.dim, 0.0f);
    arrays.k = k.To(c.type);
    Expect(c, arrays, 1e-2);
  }
  // The first keys of a sequence do not exist: its first rows have none.
  Case masked = FusedCase("positive", true);
  masked.masked = true;
  Arrays arrays(masked);
  std::fill_n(arrays.mask.Data<float>(), 100, 0.0f);
  Expect(masked, arrays, 1e-2);
  for (const bool causal : {false, true}) {
    const Case plain = FusedCase("relu", causal);
    Arrays with_nan(plain);
    Tensor v = with_nan.v.To(DataType::kF32);
    v.Data<float>()[100 * plain.value_dim] = NAN;
    with_nan.v = v.To(plain.type);
    EXPECT_GT(OnGpu(plain, with_nan).tally.unusable, 0);
  }
}

// Memory that a call takes from its context has held anything.
TEST_F(CudaLinear, FusedKernelsIgnoreWhatTheirMemoryHeld) {
  constexpr int64_t kCount = 1 << 22;
  const auto fill = [&](float value) {
    Tensor filled({kCount});
    std::fill_n(filled.Data<float>(), kCount, value);
    filled = filled.To(kGpu);
    const DeviceScratch<float> memory(*context_, kCount);
    QueueCopy(memory.data(), filled.view().data(), kCount * 4, *context_);
    context_->Wait();
  };
  for (const bool causal : {false, true}) {
    for (const double decay : {0.0, 0.1}) {
      if (!causal && decay > 0) continue;
      Case c = FusedCase("positive", causal);
      c.decay = decay;
      for (const float value : {NAN, 5.0f, -5.0f}) {
        fill(value);
        Expect(c);
      }
    }
  }
}

TEST_F(CudaLinear, FusedKernelsForget) {
  for (const char* map : {"positive", "relu"}) {
    for (const double decay : {0.001, 0.1, 2.0, 60.0}) {
      Case c = FusedCase(map, true);
      c.decay = decay;
      c.masked = decay == 0.1;
      c.settled = decay == 60.0;
      Expect(c);
      Case shared = c;
      shared.heads = 4;
      Expect(shared);
      for (const int64_t length : {1, 64, 65, 2000}) {
        Case other = c;
        other.batch = length == 2000 ? 20 : 1;  // several chunks in a segment
        other.query_length = other.key_length = length;
        other.features = 65;
        Expect(other);
      }
      Case wide = c;
      wide.dim = 128;
      wide.value_dim = 72;
      wide.features = 100;
      Expect(wide);
    }
    // Long keys, then short ones, and the other way: maxima that decay leaves behind.
    for (const double decay : {0.05, 0.5}) {
      Case c = FusedCase(map, true);
      c.batch = 20;
      c.query_length = c.key_length = 1000;
      c.deviation = 2;
      c.decay = decay;
      Arrays growing(c), shrinking(c);
      for (Arrays* arrays : {&growing, &shrinking}) {
        Tensor k = arrays->k.To(DataType::kF32);
        for (int64_t i = 0; i < k.shape().Elements(); ++i) {
          const float part = static_cast<float>(i / c.dim % c.key_length) / 1000;
          k.Data<float>()[i] *= arrays == &growing ? part : 1 - part;
        }
        arrays->k = k.To(c.type);
        Expect(c, *arrays, 1e-2);
      }
    }
    // Packed sequences: ℓ = −1e6 at a few places.
    for (const double deviation : {1.0, 8.0}) {
      Case c = FusedCase(map, true);
      c.deviation = deviation;
      c.decay = 0.1;
      Arrays arrays(c);
      for (const int64_t row : {0, 1, 63, 64, 100, 130, 299})
        arrays.log_decay.Data<double>()[row] = -1e6;
      Expect(c, arrays, 1e-2);
    }
  }
}

TEST_F(CudaLinear, ForgettingEqualsTheReference) {
  for (const double decay : {0.01, 2.0, 60.0}) {
    for (const char* map : {"positive", "relu", "taylor", "hyperbolic"}) {
      Case c{.map = map, .causal = true, .masked = decay == 2.0, .decay = decay};
      if (c.map == "taylor") c.dim = 6;
      Expect(c);
      c.normalize = false;
      Expect(c);
    }
  }
  Expect({.heads = 4, .kv_heads = 2, .deviation = 4, .causal = true, .decay = 0.5});
  // Packed sequences: ℓ = −1e6 at a few places.
  const Case c{.query_length = 300, .key_length = 300, .causal = true, .decay = 0.1};
  Arrays arrays(c);
  for (const int64_t row : {0, 1, 63, 64, 100, 299}) arrays.log_decay.Data<double>()[row] = -1e6;
  Expect(c, arrays, 1e-4);
}

TEST_F(CudaLinear, IsExactAtAnyNorm) {
  for (const bool causal : {false, true}) {
    for (const double deviation : {0.1, 2.0, 4.0, 8.0, 30.0}) {
      const Case c{.query_length = 400,
                   .key_length = 400,
                   .dim = 64,
                   .value_dim = 16,
                   .features = 128,
                   .deviation = deviation,
                   .causal = causal};
      // Exponents near 4000 are known within 2⁻¹³ only.
      Expect(c, Arrays(c), deviation > 8 ? 1e-3 : 1e-4);
    }
  }
}

// A key of zeros has the largest exponent of every feature if all others are long.
TEST_F(CudaLinear, AKeyThatDominatesHidesNothingBeforeIt) {
  const Case c{.heads = 1,
               .kv_heads = 1,
               .query_length = 300,
               .key_length = 300,
               .dim = 64,
               .features = 64,
               .deviation = 8,
               .causal = true};
  for (const int64_t place : {40, 63, 64, 201, 299}) {
    Arrays arrays(c);
    std::fill_n(arrays.k.Data<float>() + place * c.dim, c.dim, 0.0f);
    Expect(c, arrays, 1e-4);
  }
  Arrays growing(c), shrinking(c);
  for (int64_t i = 0; i < c.key_length * c.dim; ++i) {
    const float part = static_cast<float>(i / c.dim) / static_cast<float>(c.key_length);
    growing.k.Data<float>()[i] *= part;
    shrinking.k.Data<float>()[i] *= 1 - part;
  }
  Expect(c, growing, 1e-4);
  Expect(c, shrinking, 1e-4);
  // Signed maps with one exponent for all features, whose denominators tell nothing.
  Case signed_map = c;
  signed_map.map = "trigonometric";
  signed_map.deviation = 0.4;
  Arrays one_long(signed_map);
  for (int64_t i = 0; i < c.dim; ++i) one_long.k.Data<float>()[201 * c.dim + i] *= 30;
  // Gradients of rows with one key are differences of large numbers.
  Expect(signed_map, one_long, 1e-4, /*gradient_bound=*/2e-2);
}

TEST_F(CudaLinear, CountsRowsLikeTheReference) {
  for (const bool causal : {false, true}) {
    const Case c{.map = "identity", .causal = causal};
    const Arrays arrays(c);
    const Results want = Call(c, arrays, c.Plan(), cpu_).Run(), got = OnGpu(c, arrays);
    EXPECT_GT(want.tally.nonpositive, 0);
    EXPECT_EQ(got.tally.nonpositive, want.tally.nonpositive);
    EXPECT_EQ(got.tally.unusable, want.tally.unusable);
    Expect({.map = "identity", .causal = causal, .least_denominator = 30});
  }
  Case c{.masked = true};
  Arrays arrays(c);
  arrays.q.Data<float>()[5] = NAN;
  arrays.k.Data<float>()[0] = NAN;  // it does not exist
  arrays.v.Data<float>()[100 * c.value_dim] = 1e31f;
  arrays.mask.Data<float>()[100] = 1;
  Call call(c, arrays, c.Plan(), *context_);
  kernels::CountUnusable({.problem = call.problem(), .key_mean = {}, .tally = call.tally().At()},
                         *context_);
  EXPECT_EQ(call.tally().Read()[0].unusable, 2);
  Tensor with_nan = Draw({3, 5, 9}, "x", 1, DataType::kF32);
  with_nan.Data<float>()[20] = INFINITY;
  with_nan = with_nan.To(kGpu);
  call.tally().Clear();
  kernels::CountNotFinite({.array = with_nan, .tally = call.tally().At()}, *context_);
  EXPECT_EQ(call.tally().Read()[0].unusable, 1);
}

TEST_F(CudaLinear, GivesTheSameBitsFromRunToRun) {
  for (const bool causal : {false, true}) {
    const Case c{.batch = 2,
                 .heads = 4,
                 .query_length = 1000,
                 .key_length = 1000,
                 .dim = 64,
                 .value_dim = 64,
                 .features = 128,
                 .causal = causal,
                 .decay = causal ? 0.1 : 0.0};
    const Arrays arrays(c);
    const Results first = OnGpu(c, arrays);
    for (int run = 0; run < 3; ++run) {
      const Results again = OnGpu(c, arrays);
      for (const auto part : {&Results::out, &Results::log_sum, &Results::grad_q, &Results::grad_k,
                              &Results::grad_v, &Results::grad_log_decay}) {
        const Tensor &a = first.*part, &b = again.*part;
        if (a.empty()) continue;
        EXPECT_EQ(std::memcmp(a.Data<double>(), b.Data<double>(), static_cast<size_t>(a.Bytes())),
                  0);
      }
    }
  }
}

// Rows [begin, end) of all arrays of queries or keys.
ConstView RowsOf(const ConstView& array, int64_t begin, int64_t end) {
  return array.empty() ? array : array.Range(2, begin, end - begin);
}

AttentionProblem PartOf(const AttentionProblem& problem, int64_t begin, int64_t end) {
  AttentionProblem part = problem;
  part.q = RowsOf(problem.q, begin, end);
  part.k = RowsOf(problem.k, begin, end);
  part.v = RowsOf(problem.v, begin, end);
  part.mask = RowsOf(problem.mask, begin, end);
  part.log_decay = RowsOf(problem.log_decay, begin, end);
  part.query_length = part.key_length = end - begin;
  return part;
}

// Keys that join piece by piece, queries that read, and calls that continue: as the reference does
// in one call.
TEST_F(CudaLinear, StatesContinue) {
  for (const double decay : {0.0, 0.3}) {
    const Case c{.batch = 2,
                 .heads = 4,
                 .dim = 24,
                 .value_dim = 20,
                 .deviation = 2,
                 .causal = true,
                 .masked = true,
                 .decay = decay};
    const Arrays arrays(c);
    const FeaturePlan plan = c.Plan();
    Call want(c, arrays, plan, cpu_), got(c, arrays, plan, *context_);
    Tensor want_out = want.Zeros({c.batch, c.heads, 200, c.value_dim}, DataType::kF64),
           got_out = got.Zeros(want_out.shape(), DataType::kF32);
    const int64_t width = got.Constants().width();
    const StateTensors want_states(8, width, c.value_dim), states(8, width, c.value_dim, *context_),
        appended(8, width, c.value_dim, *context_);
    kernels::LinearAttention({.call = {.problem = want.problem(),
                                       .out = want_out,
                                       .log_sum = {},
                                       .tally = want.tally().At()},
                              .heads = want.Heads(),
                              .states = want_states.views()},
                             cpu_);
    const std::vector<int64_t> cuts = {0, 1, 4, 5, 80, 200};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const AttentionProblem part = PartOf(got.problem(), cuts[i], cuts[i + 1]);
      const View out = View(got_out).Range(2, cuts[i], cuts[i + 1] - cuts[i]);
      kernels::LinearArguments arguments{
          .call = {.problem = part, .out = out, .log_sum = {}, .tally = got.tally().At()},
          .heads = got.Heads(),
          .states = states.views()};
      kernels::LinearAttention(arguments, *context_);
      arguments.states = appended.views();
      kernels::LinearAppend(arguments, *context_);
    }
    context_->Wait();
    EXPECT_LE(RelativeError(InDouble(got_out), want_out), 1e-4);
    for (const StateTensors* own : {&states, &appended}) {
      const StateTensors on_cpu = own->To(Device{});
      const kernels::PrefixStates a = on_cpu.views(), b = want_states.views();
      for (int64_t group = 0; group < 8; ++group) {
        const kernels::PrefixState x = a.At(group), y = b.At(group);
        EXPECT_EQ(*x.tokens, *y.tokens);
        EXPECT_NEAR(*x.log_decay, *y.log_decay, 1e-6 * (1 + std::fabs(*y.log_decay)));
        for (int64_t r = 0; r < width; ++r) {
          const auto at = static_cast<size_t>(r);
          EXPECT_NEAR(x.z[at] * std::exp(x.c[at] - y.c[at]), y.z[at], 1e-4 * y.z[at]);
        }
      }
    }
    // Reading: a few rows, and all, as parts and as rows of output.
    Case read = c;
    read.causal = false;
    for (const int64_t rows : {int64_t{3}, int64_t{200}}) {
      AttentionProblem queries = PartOf(got.problem(), 0, rows);
      queries.causal = false;
      queries.log_decay = {};
      AttentionProblem exact = PartOf(want.problem(), 0, rows);
      exact.causal = false;
      exact.log_decay = {};
      const Shape shape({c.batch, c.heads, rows, c.value_dim});
      Tensor read_out = got.Zeros(shape, DataType::kF32), exact_out(shape);
      Tensor log_scale = got.Zeros({8, rows}, DataType::kF64),
             numerator = got.Zeros({8, rows, c.value_dim}, DataType::kF64),
             denominator = got.Zeros({8, rows}, DataType::kF64);
      kernels::LinearRead(
          {.call = {.problem = exact, .out = exact_out, .log_sum = {}, .tally = want.tally().At()},
           .heads = want.Heads(),
           .states = want_states.views()},
          cpu_);
      kernels::LinearArguments arguments{
          .call = {.problem = queries, .out = read_out, .log_sum = {}, .tally = got.tally().At()},
          .heads = got.Heads(),
          .states = states.views()};
      kernels::LinearRead(arguments, *context_);
      context_->Wait();
      EXPECT_LE(RelativeError(InDouble(read_out), InDouble(exact_out)), 1e-4) << rows;
      const kernels::AttentionArguments parts{
          .problem = queries,
          .out = read_out,
          .log_sum = {},
          .tally = got.tally().At(),
          .parts = {.log_scale = log_scale, .numerator = numerator, .denominator = denominator}};
      kernels::LinearRead({.call = parts, .heads = got.Heads(), .states = states.views()},
                          *context_);
      context_->Wait();
      Tensor divided = InDouble(numerator);
      const Tensor by = InDouble(denominator);
      for (int64_t i = 0; i < divided.shape().Elements(); ++i)
        divided.Data<double>()[i] /= by.Data<double>()[i / c.value_dim];
      EXPECT_LE(RelativeError(divided, InDouble(exact_out)), 1e-4) << rows;
    }
  }
}

TEST_F(CudaLinear, AMillionEqualKeysDoNotDrift) {
  constexpr int64_t kLength = int64_t{1} << 18, kSingles = 500;
  const Case c{.heads = 1,
               .kv_heads = 1,
               .query_length = kLength,
               .key_length = kLength,
               .dim = 8,
               .value_dim = 4,
               .features = 16};
  Arrays arrays(c);
  for (int64_t row = 1; row < kLength; ++row) {
    std::copy_n(arrays.k.Data<float>(), c.dim, arrays.k.Data<float>() + row * c.dim);
    std::copy_n(arrays.v.Data<float>(), c.value_dim, arrays.v.Data<float>() + row * c.value_dim);
  }
  Call call(c, arrays, c.Plan(), *context_);
  const StateTensors states(1, 16, c.value_dim, *context_);
  Tensor out = call.Zeros({1, 1, 1, c.value_dim}, DataType::kF32);
  const AttentionProblem one = PartOf(call.problem(), 0, 1);
  const auto append = [&](const AttentionProblem& problem) {
    kernels::LinearAppend(
        {.call = {.problem = problem, .out = out, .log_sum = {}, .tally = call.tally().At()},
         .heads = call.Heads(),
         .states = states.views()},
        *context_);
  };
  for (int time = 0; time < 4; ++time) append(call.problem());
  for (int64_t i = 0; i < kSingles; ++i) append(one);
  context_->Wait();
  const StateTensors on_cpu = states.To(Device{});
  const kernels::PrefixState state = on_cpu.views().At(0);
  const double tokens = 4.0 * kLength + kSingles;
  EXPECT_EQ(*state.tokens, tokens);
  for (int64_t r = 0; r < 16; ++r) {
    EXPECT_NEAR(state.z[static_cast<size_t>(r)] / tokens, 1, 2e-6);
    for (int64_t v = 0; v < c.value_dim; ++v)
      EXPECT_NEAR(state.s[r * c.value_dim + v] / tokens, arrays.v.Data<float>()[v], 1e-5);
  }
}

TEST_F(CudaLinear, RefusesInOneLine) {
  const auto error_of = [&](const Case& c, int64_t window) -> std::string {
    const Arrays arrays(c);
    Call call(c, arrays, c.Plan(), *context_);
    AttentionProblem problem = call.problem();
    problem.window = window;
    Tensor out = call.Zeros({c.batch, c.heads, c.query_length, c.value_dim}, DataType::kF32);
    try {
      kernels::LinearAttention(
          {.call = {.problem = problem, .out = out, .log_sum = {}, .tally = call.tally().At()},
           .heads = call.Heads()},
          *context_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of({}, 3).find("windows run on the cpu only"), std::string::npos);
  EXPECT_NE(error_of({.map = "poly-sketch"}, -1).find("the map 'poly-sketch' runs on the cpu only"),
            std::string::npos);
  EXPECT_NE(error_of({.dim = 300}, -1).find("at most 256"), std::string::npos);
}

}  // namespace
}  // namespace favor
