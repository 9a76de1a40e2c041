// Steps of a Trainer against AdamW computed by hand in double: which batches are read, how they are
// weighted, what is clipped and what decays.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/access.h"
#include "favor/favor.h"
#include "models/network.h"
#include "tests/models/scored_pass.h"

namespace favor {
namespace {

// Batches of ten tokens with alternately 10, 6 and 2 targets.
class UnevenBatches : public Dataset {
 public:
  int64_t vocab() const override { return 7; }
  int64_t classes() const override { return 0; }
  int64_t Length(int64_t) const override { return 5; }
  Batch TrainBatch(const BatchRequest& request) const override {
    const RandomStream stream =
        RandomStream(3, "uneven").Child(static_cast<uint64_t>(request.index));
    const auto token = [&](uint64_t i) { return static_cast<int32_t>(stream.Uniform(i) * 7); };
    Batch batch{.batch = 2, .length = 5};
    for (uint64_t i = 0; i < 10; ++i) {
      batch.tokens.push_back(token(2 * i));
      const bool is_target = static_cast<int64_t>(i) < 10 - 4 * (request.index % 3);
      batch.targets.push_back(is_target ? token(2 * i + 1) : kNoTarget);
    }
    return batch;
  }
  int64_t Batches(Split, int64_t, int64_t) const override { return 1; }
  Batch EvalBatch(Split, const BatchRequest& request) const override { return TrainBatch(request); }
};
constexpr int64_t kAccumulate = 3;
constexpr double kTargets = 10 + 6 + 2;

// No parameter has a size that is a multiple of 8. ε is of the size of gradients: otherwise AdamW's
// first step would not depend on their scale.
RunConfig UnevenRun() {
  RunConfig run;
  run.model.width = 6;
  run.model.heads = 2;
  run.model.ff = 11;
  run.model.convolution = 3;
  run.model.features.features = 16;
  run.training = {.steps = 8,
                  .batch = 2,
                  .accumulate = kAccumulate,
                  .learning_rate = 0.08,
                  .warmup = 4,
                  .epsilon = 0.01,
                  .weight_decay = 0.5,
                  .clip = 0,
                  .dropout = 0,
                  .redraw = 1,
                  .seed = 4};
  return run;
}

// The gradient, the moments and the expected new values of one parameter.
struct HandParameter {
  std::vector<double> gradient, first, second, expected;
};

// Computes steps from the gradients of a network in double (which other tests compare with central
// differences), summed and scaled here.
class Hand {
 public:
  explicit Hand(const Trainer& trainer)
      : config_(trainer.config().training),
        network_(models::Network::Make(
            trainer.config().model,
            {.seed = static_cast<uint64_t>(config_.seed), .type = DataType::kF64})),
        buffers_(network_->MakeBuffers()) {
    for (const auto& parameter : network_->parameters().all()) {
      const auto size = static_cast<size_t>(parameter->shape.Elements());
      parameters_.push_back({.gradient = std::vector<double>(size, 0.0),
                             .first = std::vector<double>(size, 0.0),
                             .second = std::vector<double>(size, 0.0),
                             .expected = std::vector<double>(size, 0.0)});
    }
  }

  // Step number `step` ≥ 1 from the trainer's weights.
  void Step(Trainer& trainer, int64_t step, double rate) {
    const auto& all = network_->parameters().all();
    const std::vector<Model::NamedParameter> weights = trainer.model().Parameters();
    for (size_t p = 0; p < all.size(); ++p) Copy(weights[p].value, all[p]->value);
    network_->Redraw(static_cast<uint64_t>(step - 1));
    SumGradients(step);
    const double clip = config_.clip;
    const double scale = clip > 0 && norm_ > clip ? clip / norm_ : 1;
    for (size_t p = 0; p < all.size(); ++p) {
      // Weight decay is for matrices: not for biases, nor for the gains of norms.
      const bool decays = all[p]->shape.rank() == 2;
      for (size_t i = 0; i < parameters_[p].gradient.size(); ++i) {
        const double w = all[p]->value.Data<double>()[i], g = scale * parameters_[p].gradient[i];
        double &m = parameters_[p].first[i], &v = parameters_[p].second[i];
        m = config_.beta1 * m + (1 - config_.beta1) * g;
        v = config_.beta2 * v + (1 - config_.beta2) * g * g;
        const double t = static_cast<double>(step), mean = m / (1 - std::pow(config_.beta1, t)),
                     square = v / (1 - std::pow(config_.beta2, t));
        parameters_[p].expected[i] = w - rate * (mean / (std::sqrt(square) + config_.epsilon) +
                                                 (decays ? config_.weight_decay * w : 0));
      }
    }
  }

  double norm() const { return norm_; }
  double loss() const { return loss_; }

  // A float gradient differs from a double one by up to 1e-5 of the norm, and an error δ of it
  // moves m̂/(√v̂ + ε) by at most about 2δ/ε.
  void ExpectWeights(Trainer& trainer, double rate) const {
    const double size = config_.clip > 0 ? std::min(config_.clip, norm_) : norm_;
    const double bound = 2 * rate * 1e-5 * size / config_.epsilon;
    const std::vector<Model::NamedParameter> weights = trainer.model().Parameters();
    for (size_t p = 0; p < weights.size(); ++p) {
      for (size_t i = 0; i < parameters_[p].expected.size(); ++i) {
        const double want = parameters_[p].expected[i];
        ASSERT_NEAR(weights[p].value.Data<float>()[i], want, bound + 2e-7 * std::fabs(want))
            << weights[p].name << " " << i;
      }
    }
  }

 private:
  void SumGradients(int64_t step) {
    const Context context({.threads = 1});
    const UnevenBatches data;
    double loss = 0, squares = 0;
    for (HandParameter& parameter : parameters_)
      std::fill(parameter.gradient.begin(), parameter.gradient.end(), 0.0);
    for (int64_t i = 0; i < kAccumulate; ++i) {
      network_->parameters().ZeroGradients(context);
      const Batch batch = data.TrainBatch({.index = (step - 1) * kAccumulate + i});
      loss += EvaluatedAndBackward(*network_, batch, {.context = context}, 1, buffers_).loss;
      for (size_t p = 0; p < parameters_.size(); ++p) {
        const double* gradient = network_->parameters().all()[p]->grad.Data<double>();
        for (size_t j = 0; j < parameters_[p].gradient.size(); ++j)
          parameters_[p].gradient[j] += gradient[j] / kTargets;
      }
    }
    for (const HandParameter& parameter : parameters_) {
      for (const double g : parameter.gradient) squares += g * g;
    }
    norm_ = std::sqrt(squares);
    loss_ = loss / kTargets;
  }

  TrainConfig config_;
  std::unique_ptr<models::Network> network_;
  models::PassBuffers buffers_;
  std::vector<HandParameter> parameters_;
  double norm_ = 0, loss_ = 0;
};

// Without a clip, with one far below the norm, and with one far above it.
TEST(Step, IsAdamWByHand) {
  const Context context({.threads = 2});
  for (const double clip : {0.0, 0.05, 1e3}) {
    SCOPED_TRACE("clip " + std::to_string(clip));
    RunConfig run = UnevenRun();
    run.training.clip = clip;
    Trainer trainer(run, context, std::make_shared<UnevenBatches>());
    for (const auto& parameter : internal::Inside(trainer.model()).parameters().all())
      ASSERT_NE(parameter->shape.Elements() % 8, 0) << parameter->name;
    Hand hand(trainer);
    for (int64_t step = 1; step <= 3; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const double rate = 0.02 * static_cast<double>(step);  // 4 steps of warm-up to 0.08
      hand.Step(trainer, step, rate);
      ASSERT_GT(hand.norm(), 0.5);
      const StepReport report = trainer.Step();
      EXPECT_NEAR(report.gradient_norm, hand.norm(), 1e-5 * hand.norm());
      EXPECT_NEAR(report.loss, hand.loss(), 1e-5 * hand.loss());
      EXPECT_DOUBLE_EQ(report.learning_rate, rate);
      hand.ExpectWeights(trainer, rate);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Two runs that differ only in weight decay end up rate·decay·w apart, for matrices only.
TEST(Step, DecaysMatricesAndNothingElse) {
  const Context context({.threads = 1});
  std::vector<std::vector<float>> first, after[2];
  std::vector<std::string> names;
  for (const int with_decay : {0, 1}) {
    RunConfig run = UnevenRun();
    run.training.weight_decay = 0.5 * with_decay;
    Trainer trainer(run, context, std::make_shared<UnevenBatches>());
    const auto values = [&] {
      std::vector<std::vector<float>> all;
      for (const auto& parameter : trainer.model().Parameters()) {
        const float* data = parameter.value.Data<float>();
        all.emplace_back(data, data + parameter.value.shape().Elements());
      }
      return all;
    };
    names.clear();
    for (const auto& parameter : trainer.model().Parameters()) {
      names.push_back(parameter.name);
      for (int64_t i = 0; i < parameter.value.shape().Elements(); ++i)
        parameter.value.Data<float>()[i] += 0.5f;  // biases are 0 at first
    }
    first = values();
    trainer.Step();
    after[with_decay] = values();
  }
  for (size_t p = 0; p < names.size(); ++p) {
    const bool decays =
        names[p].find("norm") == std::string::npos && names[p].find("bias") == std::string::npos;
    for (size_t i = 0; i < first[p].size(); ++i) {
      const double want = decays ? 0.02 * 0.5 * first[p][i] : 0;
      // Two roundings of numbers of order 1.
      EXPECT_NEAR(after[0][p][i] - after[1][p][i], want, decays ? 5e-7 : 0) << names[p];
    }
  }
}

// Rises linearly over the warm-up, then half a cosine (here at 45°, 90°, 135° and 180°) or
// constant.
TEST(Step, TakesTheLearningRateOfItsNumber) {
  const Context context({.threads = 1});
  struct Rates {
    Schedule schedule;
    int64_t warmup;
    std::vector<double> of_steps;  // rates as shares of the full rate
  };
  const double half = std::sqrt(0.5) / 2;
  for (const auto& [schedule, warmup, of_steps] :
       {Rates{Schedule::kCosine,
              2,
              {0.5, 1, 0.1 + 0.9 * (0.5 + half), 0.1 + 0.9 * 0.5, 0.1 + 0.9 * (0.5 - half), 0.1}},
        Rates{Schedule::kCosine, 0, {0.55, 0.1}}, Rates{Schedule::kCosine, 4, {0.25, 0.5, 0.75, 1}},
        Rates{Schedule::kCosine, 10, {0.1, 0.2, 0.3}},
        Rates{Schedule::kConstant, 2, {0.5, 1, 1, 1}}, Rates{Schedule::kConstant, 0, {1, 1}}}) {
    RunConfig run = UnevenRun();
    run.training.schedule = schedule;
    run.training.warmup = warmup;
    run.training.steps = static_cast<int64_t>(of_steps.size());
    run.training.final_rate = 0.1;
    Trainer trainer(run, context, std::make_shared<UnevenBatches>());
    for (const double share : of_steps) {
      EXPECT_NEAR(trainer.Step().learning_rate, 0.08 * share, 1e-15)
          << Name(schedule) << ", warm-up " << warmup << ", step " << trainer.step();
    }
  }
}

}  // namespace
}  // namespace favor
