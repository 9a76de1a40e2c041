// Multi-head attention: gradients against central differences in double, and heads of several kinds
// against calls of their own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "layers/multi_head_attention.h"
#include "tests/layers/layer_gradients.h"
#include "tests/layers/uniform_shape.h"

namespace favor {
namespace {

// A layer on two sequences of five tokens of width 8.
class AttentionLayerCase {
 public:
  AttentionLayerCase(ParameterSet& parameters, layers::AttentionShape shape)
      : layer(parameters, "attention", shape, 0.7) {
    layer.Redraw(5, 0);
    layer.Reserve(arena_, 10);
    layer.ReserveWorkspace(arena_, 10, true);
    arena_.Provide();
    activations = layer.Reserve(arena_, 10);
    workspace_ = layer.ReserveWorkspace(arena_, 10, true);
  }

  void Forward(const Context& context, const Tensor& x) {
    const Tally tally(context);
    layer.Forward(context, rows, x, activations, /*training=*/true, tally.At(), {}, y);
    EXPECT_EQ(tally.Read()[0].unusable, 0);
  }
  void Backward(const Context& context, const Tensor& x, const Tensor& grad_y) {
    const Tally tally(context);
    layer.Backward(context, rows, x, activations, workspace_, grad_y, tally.At(), grad_x);
    EXPECT_EQ(tally.Read()[0].unusable, 0);
  }

  layers::MultiHeadAttention layer;
  layers::MultiHeadAttention::Rows rows{.sequences = {.batch = 2, .length = 5, .mask = {}}};
  layers::MultiHeadAttention::Activations activations;
  Tensor y{{10, 8}, DataType::kF64}, grad_x{{10, 8}, DataType::kF64};

 private:
  layers::Arena arena_{DataType::kF64};
  layers::MultiHeadAttention::Workspace workspace_;
};

class AttentionGradients : public LayerGradients {
 protected:
  // Of a layer whose parameters have been shaken: gradients of x and of all parameters.
  void ExpectGradientsOf(AttentionLayerCase& layer) {
    Tensor x = RandomDoubles({10, 8}, "x");
    const Tensor weights = RandomDoubles({10, 8}, "w");
    const auto loss = [&] {
      layer.Forward(context_, x);
      return WeightedSum(weights, layer.y);
    };
    loss();
    layer.Backward(context_, x, weights);
    ExpectGradient("x", x, layer.grad_x, loss);
    ExpectParameterGradients(loss);
  }
  void ExpectGradientsOf(const layers::AttentionShape& shape) {
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    AttentionLayerCase layer(parameters_, shape);
    Shake();
    ExpectGradientsOf(layer);
  }
};

TEST_F(AttentionGradients, MultiHeadAttention) {
  struct Variant {
    const char* attention;
    bool causal, rotary, masked;
    int64_t kv_heads, convolution = 0;
  };
  for (const Variant& v : {Variant{"exact", true, true, false, 2},
                           {"exact", false, false, true, 1},
                           {"linear", true, true, false, 1},
                           {"linear", false, false, true, 2},
                           {"identity", true, false, false, 2}}) {
    SCOPED_TRACE(std::string(v.attention) + (v.causal ? " causal" : "") +
                 (v.rotary ? " rotary" : "") + (v.masked ? " masked" : ""));
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    AttentionOptions options{.attention = v.attention, .causal = v.causal};
    options.features.features = 8;
    const int64_t kv_heads = std::string(v.attention) == "identity" ? 2 : v.kv_heads;
    layers::AttentionShape shape = UniformShape(8, 2, kv_heads, options);
    shape.convolution = v.convolution;
    AttentionLayerCase layer(parameters_, shape);
    Shake();
    layers::WaveTable waves(4, DataType::kF64);
    waves.Cover(context_, 0, 5);
    Tensor mask({2, 5});
    for (int64_t i = 0; i < 10; ++i) mask.Data<float>()[i] = i == 4 || i >= 8 ? 0.0f : 1.0f;
    if (v.masked) layer.rows.sequences.mask = mask;
    if (v.rotary) layer.rows.rotary = &waves;
    ExpectGradientsOf(layer);
  }
}

layers::AttentionShape ThreeGroups(bool causal) {
  AttentionOptions exact{.attention = "exact", .causal = causal}, relu{.causal = causal},
      taylor{.causal = causal};
  relu.features = {.map = "relu", .features = 8};
  taylor.features = {.map = "taylor"};
  layers::AttentionShape shape{.width = 8};
  shape.Add({.heads = 2, .kv_heads = 1, .dim = 3, .value_dim = 3, .options = exact});
  shape.Add({.heads = 1, .kv_heads = 1, .dim = 2, .value_dim = 5, .options = relu});
  shape.Add({.heads = 2, .kv_heads = 2, .dim = 4, .value_dim = 1, .options = taylor});
  return shape;
}

TEST_F(AttentionGradients, GroupsOfHeads) {
  for (const bool causal : {false, true}) ExpectGradientsOf(ThreeGroups(causal));
}

// Three groups: the first forgets, the second too and is projected, the third is projected only.
layers::AttentionShape ForgettingGroups(bool per_token) {
  AttentionOptions relu{.causal = true}, taylor{.causal = true};
  relu.features = {.map = "elu", .features = 8};
  taylor.features = {.map = "taylor"};
  layers::AttentionShape shape{.width = 8};
  shape.decay_per_token = per_token;
  shape.Add(
      {.heads = 2, .kv_heads = 1, .dim = 3, .value_dim = 3, .options = relu, .memories = {3, 20}});
  shape.Add({.heads = 1,
             .kv_heads = 1,
             .dim = 4,
             .value_dim = 5,
             .options = taylor,
             .memories = {7},
             .feature_dim = 2});
  shape.Add(
      {.heads = 2, .kv_heads = 1, .dim = 4, .value_dim = 1, .options = taylor, .feature_dim = 3});
  return shape;
}

TEST_F(AttentionGradients, HeadsThatForgetAndAreProjected) {
  for (const bool per_token : {true, false}) ExpectGradientsOf(ForgettingGroups(per_token));
}

// The same by hand, head by head: decays from x, projections from q and k, one call each.
TEST_F(AttentionGradients, HeadsForgetByThemselves) {
  const layers::AttentionShape shape = ForgettingGroups(/*per_token=*/true);
  AttentionLayerCase layer(parameters_, shape);
  Shake();
  const Tensor x = RandomDoubles({10, 8}, "x");
  layer.Forward(context_, x);
  const auto parameter = [&](const std::string& name) {
    for (const auto& one : parameters_.all()) {
      if (one->name.ends_with(name)) return one->value.Data<double>();
    }
    ADD_FAILURE() << name;
    return static_cast<double*>(nullptr);
  };
  const double *w = parameter(".decay.weight"), *b = parameter(".decay.bias");
  const auto& a = layer.activations;
  // Columns of rows of one batch entry, multiplied by a matrix [to, count] if there is one.
  const auto columns = [](const View& rows, int64_t batch, int64_t first, int64_t count,
                          const double* matrix = nullptr, int64_t to = 0) {
    Tensor result({5, matrix == nullptr ? count : to}, DataType::kF64);
    for (int64_t i = 0; i < 5; ++i) {
      const double* row = rows.Data<double>() + (batch * 5 + i) * rows.stride(0) + first;
      for (int64_t j = 0; j < result.shape()[1]; ++j) {
        double value = matrix == nullptr ? row[j] : 0;
        for (int64_t c = 0; c < count && matrix != nullptr; ++c)
          value += matrix[j * count + c] * row[c];
        result.Data<double>()[i * result.shape()[1] + j] = value;
      }
    }
    return result;
  };
  // q columns: 2·3, 1·4, 2·4; k: 1·3, 1·4, 1·4; v: 1·3, 1·5, 1·1; out: 2·3, 1·5, 2·1.
  struct Head {
    size_t group;
    int64_t q, k, v, out, dim, value_dim;
    int forgets;            // which head of those that do; −1: none
    int64_t features, own;  // dim of features and the head's number in its group; 0: none
  };
  for (int64_t batch = 0; batch < 2; ++batch) {
    for (const Head& head : {Head{0, 0, 0, 0, 0, 3, 3, 0, 0, 0},
                             {0, 3, 0, 0, 3, 3, 3, 1, 0, 1},
                             {1, 6, 3, 3, 6, 4, 5, 2, 2, 0},
                             {2, 10, 7, 8, 11, 4, 1, -1, 3, 0},
                             {2, 14, 7, 8, 12, 4, 1, -1, 3, 1}}) {
      AttentionOptions options = shape.groups[head.group].options;
      options.reference = true;
      if (head.group == 0) {  // one ω per head of the group
        const Tensor omega = FeaturePlan::Draw(options.features, 2, 3, 5, 0).Omega();
        options.plan = FeaturePlan::WithOmega(options.features, 1, omega.view().At(head.own));
      }
      Tensor log_decay({5}, DataType::kF64);
      for (int64_t i = 0; i < 5 && head.forgets >= 0; ++i) {
        double logit = b[head.forgets];
        for (int64_t c = 0; c < 8; ++c)
          logit += w[head.forgets * 8 + c] * x.Data<double>()[(batch * 5 + i) * 8 + c];
        log_decay.Data<double>()[i] = std::log(1 / (1 + std::exp(-logit)));
      }
      if (head.forgets >= 0) options.log_decay = log_decay;
      const std::string group = fmt::format(".{}", head.group);
      const double *query = nullptr, *key = nullptr;
      if (head.features > 0) {
        query = parameter(group + ".query_features.weight") + head.own * head.features * 4;
        key = parameter(group + ".key_features.weight");
      }
      const Tensor want =
          Attend(columns(a.rows.part[0], batch, head.q, head.dim, query, head.features),
                 columns(a.rows.part[1], batch, head.k, head.dim, key, head.features),
                 columns(a.rows.part[2], batch, head.v, head.value_dim), options, context_);
      const Tensor got = columns(a.attended, batch, head.out, head.value_dim);
      for (int64_t i = 0; i < 5 * head.value_dim; ++i)
        EXPECT_NEAR(got.Data<double>()[i], want.Data<double>()[i], 1e-12) << head.out;
    }
  }
}

// Every group is a call of its own on its columns, copied out here by hand.
TEST_F(AttentionGradients, GroupsOfHeadsAttendByThemselves) {
  const layers::AttentionShape shape = ThreeGroups(/*causal=*/true);
  AttentionLayerCase layer(parameters_, shape);
  Shake();
  const Tensor x = RandomDoubles({10, 8}, "x");
  layer.Forward(context_, x);
  const auto columns = [](const View& rows, int64_t batch, int64_t first, int64_t count) {
    Tensor copy({5, count}, DataType::kF64);
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        copy.Data<double>()[i * count + j] =
            rows.Data<double>()[(batch * 5 + i) * rows.stride(0) + first + j];
      }
    }
    return copy;
  };
  const auto& a = layer.activations;
  // q columns: 2·3, 1·2, 2·4; k: 1·3, 1·2, 2·4; v: 1·3, 1·5, 2·1; out: 2·3, 1·5, 2·1.
  struct Head {
    int group;
    int64_t q, k, v, out, dim, value_dim;
  };
  for (int64_t batch = 0; batch < 2; ++batch) {
    for (const Head& head : {Head{0, 0, 0, 0, 0, 3, 3},
                             {0, 3, 0, 0, 3, 3, 3},
                             {1, 6, 3, 3, 6, 2, 5},
                             {2, 8, 5, 8, 11, 4, 1},
                             {2, 12, 9, 9, 12, 4, 1}}) {
      AttentionOptions options = shape.groups[static_cast<size_t>(head.group)].options;
      options.reference = true;
      if (head.group == 1)  // the first group draws from the layer's seed, others from their own
        options.plan = FeaturePlan::Draw(options.features, 1, 2,
                                         RandomStream(5, "omega of groups").Bits(1), 0);
      const Tensor want =
          Attend(columns(a.rows.part[0], batch, head.q, head.dim),
                 columns(a.rows.part[1], batch, head.k, head.dim),
                 columns(a.rows.part[2], batch, head.v, head.value_dim), options, context_);
      const Tensor got = columns(a.attended, batch, head.out, head.value_dim);
      for (int64_t i = 0; i < 5 * head.value_dim; ++i)
        EXPECT_NEAR(got.Data<double>()[i], want.Data<double>()[i], 1e-12) << head.out;
    }
  }
}

}  // namespace
}  // namespace favor
