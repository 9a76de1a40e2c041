// Gradients of whole two-layer models against central differences in double, and the fast models
// against the double ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "favor/attention.h"
#include "models/network.h"
#include "tests/layers/check_gradients.h"
#include "tests/models/scored_pass.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

using models::Network;
using models::NetworkOptions;

struct GradientCase {
  std::string name;
  ModelConfig config;
  double dropout = 0;
};

std::vector<GradientCase> Cases() {
  std::vector<GradientCase> cases;
  const auto add = [&](std::string name, const auto& change, double dropout = 0) {
    for (const bool causal : {true, false}) {
      ModelConfig config = SmallConfig(causal);
      change(config);
      cases.push_back({name + (causal ? "_decoder" : "_encoder"), config, dropout});
    }
  };
  for (const std::string_view kind : AttentionNames()) {
    if (kind == "linear") continue;
    add(std::string(kind), [&](ModelConfig& c) { c.attention = kind; });
  }
  for (const FeatureMapInfo& map : Maps()) {
    add("map_" + std::string(map.name), [&](ModelConfig& c) {
      c.features.map = map.name;
      if (map.name == "identity") c.features.projection = "none";
    });
  }
  add("post_norm", [](ModelConfig& c) { c.norm = Norm::kPost; });
  add("rotary_grouped", [](ModelConfig& c) {
    c.positions = Positions::kRotary;
    c.kv_heads = 1;
  });
  add("sinusoidal_untied_relu", [](ModelConfig& c) {
    c.positions = Positions::kSinusoidal;
    c.tied = false;
    c.activation = Activation::kRelu;
  });
  add("convolution", [](ModelConfig& c) { c.convolution = 3; });
  add("tanh_epsilon_scale", [](ModelConfig& c) {
    c.activation = Activation::kGeluTanh;
    c.norm_epsilon = 0.1;
    c.embedding_scale = 1;
  });
  for (const Decay decay : {Decay::kFixed, Decay::kToken}) {
    ModelConfig forgetting = SmallConfig();
    forgetting.decay = decay;
    cases.push_back({"decay_" + std::string(Name(decay)), forgetting});
  }
  add("feature_dim", [](ModelConfig& c) { c.feature_dim = 3; });
  add("mixed_heads", [](ModelConfig& c) {
    c.heads_of = c.causal ? "elu:1:features=5:decay=token,taylor:1:dim=2" : "elu:1,exact:1";
    c.positions = Positions::kRotary;
  });
  add("exact_every", [](ModelConfig& c) { c.exact_every = 2; });
  add("linearised", [](ModelConfig& c) {
    c.feed_forward = FeedForwardKind::kLinearised;
    c.linearised = {.degree = 4, .columns = 30};
  });
  add("linearised_exact_quadratic", [](ModelConfig& c) {
    c.norm = Norm::kPost;
    c.feed_forward = FeedForwardKind::kLinearised;
    c.linearised = {.degree = 4, .columns = 10, .exact_quadratic = true, .own_curves = true};
  });
  add("no_positions", [](ModelConfig& c) { c.positions = Positions::kNone; });
  add(
      "dropout", [](ModelConfig&) {}, 0.2);
  add(
      "dropout_post_norm", [](ModelConfig& c) { c.norm = Norm::kPost; }, 0.2);
  for (const bool per_token : {false, true}) {
    for (const bool numbers : {false, true}) {
      add(std::string(per_token ? "token_" : "sequence_") + (numbers ? "numbers" : "classes"),
          [&](ModelConfig& c) {
            c.classes = numbers ? 1 : 3;
            c.per_token = per_token;
            c.numbers = numbers;
          });
    }
  }
  add("classes_exact", [](ModelConfig& c) {
    c.classes = 3;
    c.attention = "exact";
  });
  return cases;
}

class ModelGradients : public testing::TestWithParam<GradientCase> {};

TEST_P(ModelGradients, EqualCentralDifferencesAndFloats) {
  const GradientCase& c = GetParam();
  const Context context({.threads = 2});
  const Batch batch = SmallBatch(c.config);
  const layers::Pass pass{
      .context = context, .dropout = c.dropout, .stream = RandomStream(9, "dropout")};
  const auto exact = Network::Make(c.config, {.seed = 4, .type = DataType::kF64});
  exact->parameters().ZeroGradients(context);
  models::PassBuffers buffers = exact->MakeBuffers();
  const Score score = EvaluatedAndBackward(*exact, batch, pass, 0.25, buffers);
  const auto loss = [&] { return 0.25 * Evaluated(*exact, batch, pass, buffers).loss; };
  EXPECT_NEAR(loss(), 0.25 * score.loss, 1e-12);
  // Maps with kinks and steps have no derivative where a difference crosses one.
  const std::string& map = c.config.features.map;
  const bool kinks =
      c.config.attention == "linear" && (map == "relu" || map == "abs" || map == "sgn");
  for (const auto& parameter : exact->parameters().all()) {
    ExpectGradient(parameter->name, parameter->value, parameter->grad, loss, kinks ? 1e-5 : 2e-6,
                   /*most=*/6);
  }
  // The same in floats; the differences are those of rounding.
  const auto fast = Network::Make(c.config, {.seed = 4});
  fast->parameters().ZeroGradients(context);
  models::PassBuffers fast_buffers = fast->MakeBuffers();
  const Score fast_score = EvaluatedAndBackward(*fast, batch, pass, 0.25, fast_buffers);
  EXPECT_NEAR(fast_score.loss, score.loss, 1e-4 * score.loss);
  EXPECT_EQ(fast_score.count, score.count);
  const auto of_map = [&](const FeatureMapInfo& candidate) { return candidate.name == map; };
  const bool is_signed =
      c.config.attention == "linear" && !std::ranges::find_if(Maps(), of_map)->nonnegative;
  if (is_signed) return;  // denominators near 0 magnify rounding without bound
  for (size_t i = 0; i < exact->parameters().all().size(); ++i) {
    const auto &want = *exact->parameters().all()[i], &have = *fast->parameters().all()[i];
    double largest = 1e-3, worst = 0;
    for (int64_t j = 0; j < want.shape.Elements(); ++j) {
      largest = std::max(largest, std::fabs(want.grad.Data<double>()[j]));
      worst = std::max(worst, std::fabs(want.grad.Data<double>()[j] -
                                        static_cast<double>(have.grad.Data<float>()[j])));
    }
    EXPECT_LT(worst, 1e-4 * largest) << want.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ModelGradients, testing::ValuesIn(Cases()), [](const auto& test) {
  std::string name = test.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

bool SameGradients(Network& a, Network& b) {
  for (size_t i = 0; i < a.parameters().all().size(); ++i) {
    const View &x = a.parameters().all()[i]->grad, &y = b.parameters().all()[i]->grad;
    if (std::memcmp(x.data(), y.data(),
                    static_cast<size_t>(x.shape().Elements() * ItemBytes(x.type()))) != 0)
      return false;
  }
  return true;
}

TEST(NetworkGradients, RecomputingGivesTheSameBits) {
  const Context context({.threads = 2});
  for (const Norm norm : {Norm::kPre, Norm::kPost}) {
    ModelConfig config = SmallConfig();
    config.layers = 3;
    config.norm = norm;
    const Batch batch = SmallBatch(config);
    const layers::Pass pass{.context = context, .dropout = 0.1, .stream = RandomStream(9, "d")};
    const auto kept = Network::Make(config, {.seed = 4}),
               again = Network::Make(config, {.seed = 4});
    kept->parameters().ZeroGradients(context);
    again->parameters().ZeroGradients(context);
    models::PassBuffers all = kept->MakeBuffers(), few = again->MakeBuffers(/*recompute=*/true);
    const Score a = EvaluatedAndBackward(*kept, batch, pass, 1, all);
    const Score b = EvaluatedAndBackward(*again, batch, pass, 1, few);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_TRUE(SameGradients(*kept, *again));
  }
}

// Gradients of a batch are the sum of those of batches that share its targets among them.
void ExpectSum(const ModelConfig& config, const Batch& whole, const std::vector<Batch>& parts) {
  const Context context({.threads = 2});
  const NetworkOptions doubles{.seed = 4, .type = DataType::kF64};
  const auto one = Network::Make(config, doubles), two = Network::Make(config, doubles);
  one->parameters().ZeroGradients(context);
  two->parameters().ZeroGradients(context);
  const layers::Pass pass{.context = context};
  models::PassBuffers of_whole = one->MakeBuffers(), of_parts = two->MakeBuffers();
  const Score all = EvaluatedAndBackward(*one, whole, pass, 1, of_whole);
  EXPECT_GT(all.count, 4096);  // more than have logits at the same time
  Score sum;
  for (const Batch& part : parts) {
    const Score score = EvaluatedAndBackward(*two, part, pass, 1, of_parts);
    EXPECT_GT(score.count, 1000);
    sum += score;
  }
  EXPECT_NEAR(all.loss, sum.loss, 1e-9 * all.loss);
  EXPECT_EQ(all.correct, sum.correct);
  EXPECT_EQ(all.count, sum.count);
  for (size_t i = 0; i < one->parameters().all().size(); ++i) {
    const auto &a = *one->parameters().all()[i], &b = *two->parameters().all()[i];
    for (int64_t j = 0; j < a.shape.Elements(); ++j)
      EXPECT_NEAR(a.grad.Data<double>()[j], b.grad.Data<double>()[j], 1e-8) << a.name;
  }
}

// All rows have a target, and in the parts only some.
TEST(NetworkGradients, OfEveryRowAreTheSumOfThoseOfSome) {
  const ModelConfig config = SmallConfig();
  Batch whole = SmallBatch(config, 900, 6);
  for (int32_t& target : whole.targets) target = std::max(target, 0);
  Batch some = whole, others = whole;
  for (size_t i = 0; i < whole.targets.size(); ++i)
    (i % 3 == 0 ? others : some).targets[i] = kNoTarget;
  ExpectSum(config, whole, {some, others});
}

TEST(NetworkGradients, LossesInChunksAddUp) {
  const ModelConfig config = SmallConfig();
  const Batch whole = SmallBatch(config, 900, 6);
  const auto part = [&](int64_t first, int64_t count) {
    const auto cut = [&](const std::vector<int32_t>& values) {
      return std::vector<int32_t>(values.begin() + 6 * first, values.begin() + 6 * (first + count));
    };
    return Batch{.batch = count,
                 .length = 6,
                 .tokens = cut(whole.tokens),
                 .targets = cut(whole.targets),
                 .mask = {}};
  };
  ExpectSum(config, whole, {part(0, 500), part(500, 400)});
}

TEST(NetworkGradients, SameBitsForAnyNumberOfThreads) {
  ModelConfig config = SmallConfig();
  config.width = 40;
  config.ff = 100;
  config.max_length = 150;
  const Batch batch = SmallBatch(config, 3, 150);
  std::unique_ptr<Network> first;
  for (const int threads : {1, 2, 3, 8}) {
    const Context context({.threads = threads});
    const layers::Pass pass{.context = context, .dropout = 0.1, .stream = RandomStream(9, "d")};
    auto network = Network::Make(config, {.seed = 4});
    network->parameters().ZeroGradients(context);
    models::PassBuffers buffers = network->MakeBuffers();
    EvaluatedAndBackward(*network, batch, pass, 1, buffers);
    if (first == nullptr) {
      first = std::move(network);
    } else {
      EXPECT_TRUE(SameGradients(*first, *network)) << threads;
    }
  }
}

}  // namespace
}  // namespace favor
