// Models of labels against sums by hand from their rows.
#include <gtest/gtest.h>

#include <cmath>

#include "core/access.h"
#include "favor/error.h"
#include "models/network.h"
#include "tests/layers/check_gradients.h"
#include "tests/models/scored_pass.h"
#include "tests/models/small_models.h"

namespace favor {
namespace {

struct LabelCase {
  bool causal, per_token, numbers;
};

ModelConfig LabelConfig(const LabelCase& c) {
  ModelConfig config = SmallConfig(c.causal);
  config.classes = c.numbers ? 1 : 3;
  config.per_token = c.per_token;
  config.numbers = c.numbers;
  return config;
}

class Labels : public testing::TestWithParam<LabelCase> {
 protected:
  const ModelConfig config_ = LabelConfig(GetParam());
  Model model_{config_, 3};
  const Batch batch_ = SmallBatch(config_);
  const Context context_{ContextOptions{.threads = 2}};

  View Weights(const std::string& name) {
    for (const auto& parameter : model_.Parameters()) {
      if (parameter.name == name) return parameter.value;
    }
    throw std::runtime_error(name);
  }

  // W·row + b for each sequence or token, where a sequence's row is the mean of those that exist.
  std::vector<double> OutputsByHand() {
    const Tensor hidden = model_.Hidden(batch_, config_.layers, context_);
    const int64_t width = config_.width;
    std::vector<std::vector<double>> rows;
    for (int64_t sequence = 0; sequence < batch_.batch; ++sequence) {
      std::vector<double> mean(static_cast<size_t>(width));
      double count = 0;
      for (int64_t i = 0; i < batch_.length; ++i) {
        const int64_t at = sequence * batch_.length + i;
        std::vector<double> row;
        for (int64_t j = 0; j < width; ++j)
          row.push_back(static_cast<double>(hidden.Data<float>()[at * width + j]));
        if (config_.per_token) {
          rows.push_back(row);
        } else if (batch_.mask[static_cast<size_t>(at)] > 0) {
          ++count;
          for (size_t j = 0; j < row.size(); ++j) mean[j] += row[j];
        }
      }
      if (config_.per_token) continue;
      for (double& value : mean) value /= count;
      rows.push_back(mean);
    }
    const float *weight = Weights("classifier.weight").Data<float>(),
                *bias = Weights("classifier.bias").Data<float>();
    std::vector<double> outputs;
    for (const std::vector<double>& row : rows) {
      for (int64_t c = 0; c < config_.classes; ++c) {
        double sum = static_cast<double>(bias[c]);
        for (size_t j = 0; j < row.size(); ++j)
          sum += static_cast<double>(weight[c * width + static_cast<int64_t>(j)]) * row[j];
        outputs.push_back(sum);
      }
    }
    return outputs;
  }

  struct Expected {
    double loss = 0;
    int64_t correct = 0, count = 0;
  };
  // `weights`: of classes.
  Expected ScoreByHand(const std::vector<double>& weights) {
    const std::vector<double> outputs = OutputsByHand();
    const auto classes = static_cast<size_t>(config_.classes);
    Expected score;
    for (size_t i = 0; i < outputs.size() / classes; ++i) {
      const auto row = std::span(outputs).subspan(i * classes, classes);
      if (config_.numbers) {
        const auto value = static_cast<double>(batch_.values[i]);
        if (std::isnan(value)) continue;
        score.loss += (row[0] - value) * (row[0] - value);
      } else {
        if (batch_.targets[i] == kNoTarget) continue;
        const auto target = static_cast<size_t>(batch_.targets[i]);
        double sum = 0;
        for (const double output : row) sum += std::exp(output);
        score.loss += weights[target] * (std::log(sum) - row[target]);
        score.correct += row[target] == *std::ranges::max_element(row) ? 1 : 0;
      }
      ++score.count;
    }
    return score;
  }
};

TEST_P(Labels, LogitsAndLossByHand) {
  // Weights that are not 0, so that the bias is seen.
  const View bias = Weights("classifier.bias");
  for (int64_t i = 0; i < config_.classes; ++i)
    bias.Data<float>()[i] = 0.5f - 0.75f * static_cast<float>(i);
  const std::vector<double> outputs = OutputsByHand();
  const Tensor logits = model_.Logits(batch_, context_);
  ASSERT_EQ(logits.shape(), config_.per_token
                                ? (Shape{batch_.batch, batch_.length, config_.classes})
                                : (Shape{batch_.batch, config_.classes}));
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_NEAR(logits.Data<float>()[i], outputs[i], 1e-5) << i;
  const Score score = model_.Evaluate(batch_, context_);
  const Expected expected = ScoreByHand(std::vector<double>(3, 1.0));
  EXPECT_NEAR(score.loss, expected.loss, 1e-4);
  EXPECT_EQ(score.count, expected.count);
  EXPECT_EQ(score.count, CountTargets(batch_));
  EXPECT_EQ(score.correct, expected.correct);
}

TEST_P(Labels, WeightsOfClasses) {
  models::Network& network = internal::Inside(model_);
  if (config_.numbers) {
    EXPECT_THROW(network.WeighClasses({1}), Error);
    return;
  }
  network.WeighClasses({0.5f, 1, 4});
  EXPECT_NEAR(model_.Evaluate(batch_, context_).loss, ScoreByHand({0.5, 1, 4}).loss, 1e-4);
  EXPECT_THROW(network.WeighClasses({1, 1}), Error);
  EXPECT_THROW(network.WeighClasses({1, 1, 0}), Error);
  EXPECT_THROW(network.WeighClasses({1, 1, std::nanf("")}), Error);
}

// A batch without known labels has no loss and no gradient, and leaves nothing of the batch before.
TEST_P(Labels, ABatchWithoutLabels) {
  if (!config_.per_token) return;  // every sequence has a label
  Batch none = batch_;
  std::ranges::fill(none.targets, kNoTarget);
  std::ranges::fill(none.values, std::nanf(""));
  models::Network& network = internal::Inside(model_);
  models::PassBuffers buffers = network.MakeBuffers();
  const layers::Pass pass{.context = context_};
  network.parameters().ZeroGradients(context_);
  EvaluatedAndBackward(network, batch_, pass, 1, buffers);
  network.parameters().ZeroGradients(context_);
  const Score score = EvaluatedAndBackward(network, none, pass, 1, buffers);
  EXPECT_EQ(score.count, 0);
  EXPECT_EQ(score.loss, 0);
  for (const auto& parameter : network.parameters().all()) {
    const float* grad = parameter->grad.Data<float>();
    for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
      ASSERT_EQ(grad[i], 0) << parameter->name;
  }
  // A batch of few labels has the gradients that it has alone.
  Batch few = none;
  if (config_.numbers) {
    few.values[1] = 2;
  } else {
    few.targets[1] = 2;
  }
  const auto gradients = [&](models::PassBuffers& memory) {
    network.parameters().ZeroGradients(context_);
    EvaluatedAndBackward(network, few, pass, 1, memory);
    const View grad = network.parameters().all().front()->grad;
    return std::vector<float>(grad.Data<float>(), grad.Data<float>() + grad.shape().Elements());
  };
  EvaluatedAndBackward(network, batch_, pass, 1, buffers);
  models::PassBuffers fresh = network.MakeBuffers();
  EXPECT_EQ(gradients(buffers), gradients(fresh));
}

// The gradient of a weighted loss.
TEST_P(Labels, GradientsOfWeightedClasses) {
  if (config_.numbers) return;  // they have no classes
  const auto exact = models::Network::Make(config_, {.seed = 4, .type = DataType::kF64});
  exact->WeighClasses({0.5f, 1, 4});
  exact->parameters().ZeroGradients(context_);
  models::PassBuffers buffers = exact->MakeBuffers();
  const layers::Pass pass{.context = context_};
  EvaluatedAndBackward(*exact, batch_, pass, 0.25, buffers);
  const auto loss = [&] { return 0.25 * Evaluated(*exact, batch_, pass, buffers).loss; };
  for (const auto& parameter : exact->parameters().all()) {
    if (parameter->name.starts_with("classifier."))
      ExpectGradient(parameter->name, parameter->value, parameter->grad, loss, 2e-6, /*most=*/30);
  }
}

// What padding holds changes nothing.
TEST_P(Labels, PaddingIsNotRead) {
  Batch other = batch_;
  for (size_t i = 0; i < other.tokens.size(); ++i) {
    if (other.mask[i] == 0) other.tokens[i] = (other.tokens[i] + 3) % 7;
  }
  ASSERT_NE(other.tokens, batch_.tokens);
  EXPECT_NEAR(model_.Evaluate(other, context_).loss, model_.Evaluate(batch_, context_).loss, 1e-5);
}

TEST_P(Labels, RefusesOtherLabels) {
  Batch wrong = batch_;
  if (config_.numbers) {
    wrong.values.pop_back();
    EXPECT_THROW(model_.Evaluate(wrong, context_), Error);
    wrong = batch_;
    wrong.values[1] = INFINITY;
    EXPECT_THROW(model_.Evaluate(wrong, context_), Error);
    wrong.values[1] = NAN;  // only a token may have no label
    if (config_.per_token) {
      EXPECT_EQ(model_.Evaluate(wrong, context_).count, CountTargets(wrong));
    } else {
      EXPECT_THROW(model_.Evaluate(wrong, context_), Error);
    }
    return;
  }
  wrong.targets.pop_back();
  EXPECT_THROW(model_.Evaluate(wrong, context_), Error);
  wrong = batch_;
  wrong.targets[1] = 3;
  EXPECT_THROW(model_.Evaluate(wrong, context_), Error);
  wrong.targets[1] = kNoTarget;
  if (config_.per_token) {
    EXPECT_EQ(model_.Evaluate(wrong, context_).count, CountTargets(wrong));
  } else {
    EXPECT_THROW(model_.Evaluate(wrong, context_), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Labels,
    testing::Values(LabelCase{false, false, false}, LabelCase{false, false, true},
                    LabelCase{false, true, false}, LabelCase{false, true, true},
                    LabelCase{true, false, false}, LabelCase{true, true, true}),
    [](const auto& chosen) {
      return std::string(chosen.param.causal ? "decoder" : "encoder") +
             (chosen.param.per_token ? "_tokens" : "_sequences") +
             (chosen.param.numbers ? "_numbers" : "_classes");
    });

TEST(LabelModels, RefuseImpossibleConfigs) {
  ModelConfig config = SmallConfig(/*causal=*/false);
  config.per_token = true;
  EXPECT_THROW(Model(config, 1), Error);
  config.per_token = false;
  config.numbers = true;
  EXPECT_THROW(Model(config, 1), Error);
  config.classes = 2;
  EXPECT_THROW(Model(config, 1), Error);
  Model language(SmallConfig(), 1);
  EXPECT_THROW(internal::Inside(language).WeighClasses({1}), Error);
}

}  // namespace
}  // namespace favor
