// Every layer: gradients with respect to inputs and parameters against central differences in
// double.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/joint_linear.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/multi_head_attention.h"
#include "tests/layers/check_gradients.h"
#include "tests/layers/uniform_shape.h"

namespace favor {
namespace {

using layers::ParameterSet;

class LayerGradients : public testing::Test {
 protected:
  // Biases start at 0, where a wrong sign would not show.
  void Shake() {
    parameters_.Allocate();
    for (const auto& parameter : parameters_.all()) {
      const Tensor noise = RandomDoubles(parameter->shape, parameter->name);
      for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
        parameter->value.Data<double>()[i] += 0.2 * noise.Data<double>()[i];
    }
    parameters_.ZeroGradients(context_);
  }
  void ExpectParameterGradients(const std::function<double()>& loss) {
    for (const auto& parameter : parameters_.all())
      ExpectGradient(parameter->name, parameter->value, parameter->grad, loss);
  }

  Context context_{{.threads = 2}};
  ParameterSet parameters_{{.seed = 3, .type = DataType::kF64}};
};

TEST_F(LayerGradients, Linear) {
  layers::Linear layer(parameters_, "linear", 5, 7);
  Shake();
  Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, 7}, "w");
  Tensor y({6, 7}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
  const auto loss = [&] {
    layer.Forward(context_, x, y);
    return WeightedSum(weights, y);
  };
  layer.Backward(context_, x, weights, grad_x);
  ExpectGradient("x", x, grad_x, loss);
  ExpectParameterGradients(loss);
  // A second call adds: always to the gradients of parameters, to grad_x only if told to.
  Tensor twice = grad_x.Clone();
  layer.Backward(context_, x, weights, twice, /*add=*/true);
  EXPECT_NEAR(twice.Data<double>()[3], 2 * grad_x.Data<double>()[3], 1e-12);
}

// Sizes that leave gaps between parameters that do not follow each other.
const std::vector<layers::JointLinear::Part> kParts = {{"a", 3}, {"b", 7}, {"c", 2}};

TEST_F(LayerGradients, JointLinear) {
  for (const size_t first : {0, 1, 2}) {
    const int64_t columns = std::array{12, 9, 2}[first];
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    layers::LayerNorm(parameters_, "before", 5, {});  // so that they do not begin at 0
    layers::JointLinear layer(parameters_, kParts, 5);
    layers::LayerNorm(parameters_, "behind", 5, {});
    Shake();
    Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, columns}, "w");
    Tensor y({6, columns}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
    const auto loss = [&] {
      layer.Forward(context_, x, y, first);
      return WeightedSum(weights, y);
    };
    layer.Backward(context_, x, weights, grad_x, first);
    ExpectGradient("x", x, grad_x, loss);
    ExpectParameterGradients(loss);  // of unread parts 0
  }
}

// Gradients of parts that a step does not read are 0 when it ends, whatever they held.
TEST_F(LayerGradients, JointLinearLeavesNothingOfUnreadParts) {
  layers::JointLinear layer(parameters_, kParts, 5);
  Shake();
  const Tensor x = RandomDoubles({6, 5}, "x"), all = RandomDoubles({6, 12}, "all"),
               last = RandomDoubles({6, 2}, "last");
  Tensor grad_x({6, 5}, DataType::kF64);
  parameters_.BeginGradients(context_);
  layer.Backward(context_, x, all, grad_x);
  parameters_.SettleGradients(context_);
  parameters_.BeginGradients(context_);
  layer.Backward(context_, x, last, grad_x, /*first=*/2);
  parameters_.SettleGradients(context_);
  for (const auto& parameter : parameters_.all()) {
    for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
      EXPECT_EQ(parameter->grad.Data<double>()[i] != 0, parameter->name[0] == 'c');
  }
}

// Each part has the parameters of a Linear of its name, and its columns are what that computes.
TEST_F(LayerGradients, JointLinearIsSeveralLinears) {
  layers::JointLinear layer(parameters_, kParts, 5);
  parameters_.Allocate();
  const Tensor x = RandomDoubles({6, 5}, "x");
  Tensor y({6, 12}, DataType::kF64);
  const auto set = [](double* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] = 0.5 * static_cast<double>(i + count);
  };
  for (const auto& parameter : parameters_.all()) {
    if (parameter->name.ends_with("bias"))
      set(parameter->value.Data<double>(), parameter->shape[0]);
  }
  layer.Forward(context_, x, y);
  int64_t column = 0;
  for (const auto& [name, columns] : kParts) {
    ParameterSet own({.seed = 3, .type = DataType::kF64});
    layers::Linear linear(own, name, 5, columns);
    own.Allocate();
    set(linear.bias().value.Data<double>(), columns);
    Tensor want({6, columns}, DataType::kF64);
    linear.Forward(context_, x, want);
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t j = 0; j < columns; ++j)
        EXPECT_NEAR(y.Data<double>()[row * 12 + column + j], want.Data<double>()[row * columns + j],
                    1e-12);
    }
    column += columns;
  }
}

TEST_F(LayerGradients, LayerNorm) {
  layers::LayerNorm layer(parameters_, "norm", 11, {.epsilon = 0.1});
  Shake();
  Tensor x = RandomDoubles({5, 11}, "x"), weights = RandomDoubles({5, 11}, "w");
  Tensor y({5, 11}, DataType::kF64), statistics({5, 2}, DataType::kF64),
      grad_x({5, 11}, DataType::kF64);
  const auto loss = [&] {
    layer.Forward(context_, x, statistics, y);
    return WeightedSum(weights, y);
  };
  loss();
  Tensor again({5, 11}, DataType::kF64);
  layer.Again(context_, x, statistics, again);
  EXPECT_EQ(again.Data<double>()[17], y.Data<double>()[17]);
  layer.Backward(context_, x, statistics, weights, grad_x, /*add=*/false);
  ExpectGradient("x", x, grad_x, loss);
  ExpectParameterGradients(loss);
}

TEST_F(LayerGradients, EmbeddingWithRepeatedTokens) {
  layers::Embedding layer(parameters_, "embedding", {6, 4}, {.deviation = 0.5, .scale = 3});
  Shake();
  const std::vector<int32_t> tokens = {2, 0, 2, 5, 2};
  Tensor weights = RandomDoubles({5, 4}, "w"), y({5, 4}, DataType::kF64);
  layer.Backward(context_, {.indices = tokens.data()}, weights);
  ExpectParameterGradients([&] {
    layer.Forward(context_, {.indices = tokens.data()}, /*add=*/false, y);
    return WeightedSum(weights, y);
  });
}

TEST_F(LayerGradients, FeedForward) {
  for (const auto activation : {Activation::kGelu, Activation::kRelu, Activation::kGeluTanh}) {
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    layers::FeedForward layer(
        parameters_, "ff",
        {.width = 5, .ff = 9, .activation = activation, .output_gain = 0.7, .linearised = {}});
    Shake();
    layers::Arena arena(DataType::kF64);
    layer.Reserve(arena, 6);
    layer.ReserveWorkspace(arena, 6, true);
    arena.Provide();
    const auto a = layer.Reserve(arena, 6);
    const auto w = layer.ReserveWorkspace(arena, 6, true);
    Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, 5}, "w");
    Tensor y({6, 5}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
    const auto loss = [&] {
      layer.Forward(context_, x, a, w, {}, /*kept=*/nullptr, y);
      return WeightedSum(weights, y);
    };
    loss();
    layer.Backward(context_, x, a, w, weights, grad_x);
    ExpectGradient("x", x, grad_x, loss);
    ExpectParameterGradients(loss);
  }
}

TEST_F(LayerGradients, Convolution) {
  Tensor mask({3, 4});
  for (int64_t i = 0; i < 12; ++i) mask.Data<float>()[i] = i == 2 || i == 11 ? 0.0f : 1.0f;
  for (const bool causal : {true, false}) {
    for (const bool masked : {true, false}) {
      parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
      layers::Convolution layer(parameters_, {{"first", 2}, {"second", 3}}, 3, causal);
      Shake();
      layers::Sequences sequences{.batch = 3, .length = 4, .mask = {}};
      if (masked) sequences.mask = mask;
      Tensor x = RandomDoubles({12, 5}, "x"), weights = RandomDoubles({12, 5}, "w");
      Tensor y({12, 5}, DataType::kF64), grad_x({12, 5}, DataType::kF64);
      const auto loss = [&] {
        layer.Forward(context_, sequences, x, y);
        return WeightedSum(weights, y);
      };
      layer.Backward(context_, sequences, x, weights, grad_x);
      ExpectGradient("x", x, grad_x, loss);
      ExpectParameterGradients(loss);
      // The first token of the second sequence by hand: a column of each part.
      loss();
      const double *w = parameters_.all()[0]->value.Data<double>(), *in = x.Data<double>();
      const double expected = causal ? w[0] * in[20] : w[2] * in[20] + w[0] * in[25];
      EXPECT_NEAR(y.Data<double>()[20], expected, 1e-12);
      const double* second = parameters_.all()[1]->value.Data<double>();
      const double other = causal ? second[1] * in[23] : second[4] * in[23] + second[1] * in[28];
      EXPECT_NEAR(y.Data<double>()[23], other, 1e-12);
      // From the second part on.
      Tensor last({12, 3}, DataType::kF64);
      layer.Forward(context_, sequences, x.view().Range(1, 2, 3), last, /*first=*/1);
      for (int64_t i = 0; i < 36; ++i)
        EXPECT_EQ(last.Data<double>()[i], y.Data<double>()[i / 3 * 5 + 2 + i % 3]);
    }
  }
}

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

TEST_F(LayerGradients, CrossEntropy) {
  Tensor logits = RandomDoubles({4, 9}, "logits");
  const std::vector<int32_t> targets = {3, 8, 0, 0};
  const auto score = [&](double scale, Tensor& copy) {
    TallyEntry tally;
    kernels::CrossEntropy(
        {.targets = targets.data(), .grad_scale = scale, .logits = copy, .tally = &tally},
        context_);
    return tally;
  };
  Tensor gradient = logits.Clone();
  EXPECT_EQ(score(0.5, gradient).targets, 4);
  ExpectGradient("logits", logits, gradient, [&] {
    Tensor copy = logits.Clone();
    return 0.5 * score(0, copy).loss;
  });
}

// Once it is drawn, dropout is linear in its input: its gradient is the same operation. The mean
// must stay.
TEST_F(LayerGradients, DropoutKeepsTheMeanAndDrawsAgain) {
  const layers::Pass pass{.context = context_, .dropout = 0.25, .stream = RandomStream(1, "d")};
  Tensor x({1000, 37}, DataType::kF64), y({1000, 37}, DataType::kF64),
      again({1000, 37}, DataType::kF64);
  std::fill_n(x.Data<double>(), 37000, 1.0);
  layers::Drop(pass, 3, x, y);
  layers::Drop(pass, 3, x, again);
  double sum = 0, zeros = 0;
  for (int64_t i = 0; i < 37000; ++i) {
    sum += y.Data<double>()[i];
    zeros += y.Data<double>()[i] == 0 ? 1 : 0;
    ASSERT_EQ(y.Data<double>()[i], again.Data<double>()[i]);
  }
  // Five standard errors of 37,000 draws.
  EXPECT_NEAR(zeros / 37000, 0.25, 0.0113);
  EXPECT_NEAR(sum / 37000, 1, 0.0151);
  layers::Drop(pass, 4, x, again);
  int64_t different = 0;
  for (int64_t i = 0; i < 37000; ++i)
    different += y.Data<double>()[i] != again.Data<double>()[i] ? 1 : 0;
  EXPECT_GT(different, 10000);
}

}  // namespace
}  // namespace favor
