// Steps on batches of the caller, in one call or in three, as several processes would make them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/access.h"
#include "favor/favor.h"
#include "kernels/adamw.h"
#include "models/network.h"
#include "tests/temp_dir.h"
#include "tests/train/small_run.h"
#include "train/stepper.h"

namespace favor {
namespace {

// The trainer's own batches of a step.
std::vector<Batch> OwnBatches(const Trainer& trainer) {
  const TrainConfig& config = trainer.config().training;
  std::vector<Batch> batches;
  for (int64_t i = 0; i < config.accumulate; ++i) {
    batches.push_back(trainer.data().TrainBatch({.index = trainer.step() * config.accumulate + i,
                                                 .batch = config.batch,
                                                 .length = config.length}));
  }
  return batches;
}

// Weights, moments and step, as the bytes of a file.
std::string Saved(const Trainer& trainer) {
  const TempDir dir;
  trainer.Save(dir / "saved");
  return ReadText(dir / "saved");
}

// Two batches per step, with dropout, and ω that is drawn anew at step 6.
RunConfig TwoBatches() {
  RunConfig run = SmallRun();
  run.training.accumulate = 2;
  return run;
}

void ExpectSame(const StepReport& a, const StepReport& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.accuracy, b.accuracy);
  EXPECT_EQ(a.learning_rate, b.learning_rate);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
}

TEST(OwnBatches, AreTheSameStepBitForBit) {
  const Context context({.threads = 2});
  Trainer own(TwoBatches(), context), given(TwoBatches(), context), parts(TwoBatches(), context);
  for (int i = 0; i < 7; ++i) {
    const StepReport report = own.Step();
    ExpectSame(given.Step(OwnBatches(given)), report);
    // In three calls, one batch after the other.
    const std::vector<Batch> batches = OwnBatches(parts);
    const int64_t targets = parts.CountTargets(batches);
    for (const Batch& batch : batches) parts.AddGradients({&batch, 1}, targets);
    ExpectSame(parts.Update(), report);
  }
  const std::string saved = Saved(own);
  EXPECT_TRUE(Saved(given) == saved);
  EXPECT_TRUE(Saved(parts) == saved);
  EXPECT_EQ(own.tokens(), 7 * 2 * 4 * own.config().training.length);  // two batches of four
  EXPECT_EQ(parts.tokens(), own.tokens());
}

// A step of any number of batches draws dropout for each of them.
TEST(OwnBatches, HaveDropoutOfTheirOwn) {
  const Context context({.threads = 1});
  RunConfig run = SmallRun();
  run.training.dropout = 0.3;
  const auto gradients = [&](int copies) {
    Trainer trainer(run, context);
    const std::vector<Batch> batches(static_cast<size_t>(copies), OwnBatches(trainer)[0]);
    trainer.AddGradients(batches, trainer.CountTargets(batches));
    const View all = trainer.Gradients();
    return std::vector<float>(all.Data<float>(), all.Data<float>() + all.size(0));
  };
  // Means over the same batch once, twice and three times give what the second and third added.
  const auto one = gradients(1), two = gradients(2), three = gradients(3);
  double second_moved = 0, third_moved = 0, largest = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    const double first = one[i], second = 2.0 * two[i] - first,
                 third = 3.0 * three[i] - 2.0 * two[i];
    second_moved = std::max(second_moved, std::fabs(second - first));
    third_moved = std::max(third_moved, std::fabs(third - second));
    largest = std::max(largest, std::fabs(first));
  }
  EXPECT_GT(second_moved, 0.01 * largest);
  EXPECT_GT(third_moved, 0.01 * largest);
  run.training.dropout = 0;
  const auto without = gradients(1), three_without = gradients(3);
  for (size_t i = 0; i < without.size(); ++i)
    ASSERT_NEAR(three_without[i], without[i], 1e-5 * largest);
}

// The last batch of a step and the first of the next have different dropout. The rate is 0 and the
// batch the same: nothing else differs.
TEST(OwnBatches, HaveOtherDropoutInTheNextStep) {
  const Context context({.threads = 1});
  RunConfig run = TwoBatches();
  run.training.dropout = 0.3;
  run.training.learning_rate = 0;
  run.training.redraw = 0;
  Trainer trainer(run, context);
  const std::vector<Batch> batch = {OwnBatches(trainer)[0]};
  const int64_t targets = 2 * trainer.CountTargets(batch);
  const auto add = [&] {
    trainer.AddGradients(batch, targets);
    const View all = trainer.Gradients();
    return std::vector<float>(all.Data<float>(), all.Data<float>() + all.size(0));
  };
  const auto first = add(), both = add();
  trainer.Update();
  const auto next = add();
  double moved = 0, largest = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double second = static_cast<double>(both[i]) - static_cast<double>(first[i]);
    moved = std::max(moved, std::fabs(static_cast<double>(next[i]) - second));
    largest = std::max(largest, std::fabs(second));
  }
  EXPECT_GT(moved, 0.01 * largest);
}

// Two trainers that read one batch each and add their gradients make the step of one that reads
// both. ε is of the size of gradients, so that their rounding is not magnified.
TEST(OwnBatches, OfSeveralProcessesAddUp) {
  const Context context({.threads = 1});
  RunConfig run = TwoBatches();
  run.training.dropout = 0;
  run.training.epsilon = 0.01;
  run.training.clip = 0.5;
  Trainer whole(run, context), first(run, context), second(run, context);
  for (int i = 0; i < 4; ++i) {
    const std::vector<Batch> batches = OwnBatches(whole);
    const StepReport report = whole.Step(batches);
    const std::span share(batches);
    const int64_t targets = first.CountTargets(share.first(1)) + second.CountTargets(share.last(1));
    EXPECT_EQ(targets, whole.CountTargets(batches));
    first.AddGradients(share.first(1), targets);
    second.AddGradients(share.last(1), targets);
    const View a = first.Gradients(), b = second.Gradients();
    ASSERT_EQ(a.size(0), b.size(0));
    for (int64_t j = 0; j < a.size(0); ++j)
      a.Data<float>()[j] = b.Data<float>()[j] = a.Data<float>()[j] + b.Data<float>()[j];
    for (Trainer* rank : {&first, &second}) {
      const StepReport of_rank = rank->Update();
      EXPECT_NEAR(of_rank.gradient_norm, report.gradient_norm, 1e-5 * report.gradient_norm);
      EXPECT_EQ(of_rank.tokens, report.tokens / 2);
      EXPECT_EQ(of_rank.learning_rate, report.learning_rate);
    }
  }
  // A gradient's rounding of 1e-6 of the clipped norm moves m̂/(√v̂ + ε) by 2·1e-6·clip/ε.
  const double bound = 4 * run.training.learning_rate * 2e-6 * 0.5 / 0.01;
  const auto weights = whole.model().Parameters();
  const auto of_first = first.model().Parameters(), of_second = second.model().Parameters();
  for (size_t p = 0; p < weights.size(); ++p) {
    for (int64_t j = 0; j < weights[p].value.shape().Elements(); ++j) {
      const double want = weights[p].value.Data<float>()[j];
      ASSERT_NEAR(of_first[p].value.Data<float>()[j], want, bound + 2e-7 * std::fabs(want))
          << weights[p].name;
      ASSERT_EQ(of_first[p].value.Data<float>()[j], of_second[p].value.Data<float>()[j]);
    }
  }
}

// A process may have no batch in a step: it takes the gradients of the others.
TEST(OwnBatches, MayAllBelongToOtherProcesses) {
  const Context context({.threads = 1});
  Trainer trainer(SmallRun(), context);
  trainer.AddGradients({}, 100);
  const View gradients = trainer.Gradients();
  for (int64_t i = 0; i < gradients.size(0); ++i) ASSERT_EQ(gradients.Data<float>()[i], 0);
  gradients.Data<float>()[3] = 0.25f;  // from another process
  const StepReport report = trainer.Update();
  EXPECT_EQ(report.gradient_norm, 0.25);
  EXPECT_EQ(report.tokens, 0);
  EXPECT_EQ(trainer.step(), 1);
}

template <class Call>
void ExpectRefused(const Call& call, const std::string& says) {
  try {
    call();
    FAIL() << says;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST(OwnBatches, MisuseIsRefusedAndChangesNothing) {
  const Context context({.threads = 1});
  Trainer trainer(TwoBatches(), context), twin(TwoBatches(), context);
  trainer.Step();
  twin.Step();
  ExpectRefused([&] { trainer.Update(); }, "update: there are no gradients");
  ExpectRefused([&] { trainer.Gradients(); }, "gradients: there are none");
  ExpectRefused([&] { trainer.Step(std::span<const Batch>()); }, "step: given no batches");
  std::vector<Batch> batches = OwnBatches(trainer), bad = batches;
  bad[1].tokens[2] = 1000;
  ExpectRefused([&] { trainer.Step(bad); }, "the token 1000");
  ExpectRefused([&] { trainer.CountTargets(bad); }, "the token 1000");
  const int64_t targets = trainer.CountTargets(batches);
  ExpectRefused([&] { trainer.AddGradients(bad, 2 * targets); }, "the token 1000");
  ExpectRefused([&] { trainer.AddGradients(batches, targets - 1); },
                "expected at least the " + std::to_string(targets));
  ExpectRefused([&] { trainer.Update(); }, "there are no gradients");  // still none
  EXPECT_TRUE(Saved(trainer) == Saved(twin));

  // Errors within a step.
  const std::span share(batches);
  trainer.AddGradients(share.first(1), targets);
  ExpectRefused([&] { trainer.Step(); }, "step: there are gradients of a step");
  ExpectRefused([&] { trainer.Step(batches); }, "step: there are gradients of a step");
  ExpectRefused([&] { trainer.AddGradients(share.last(1), targets + 1); },
                "expected " + std::to_string(targets) + " as at first");
  ExpectRefused([&] { trainer.AddGradients(batches, targets); }, "targets: given");
  bad.erase(bad.begin());
  ExpectRefused([&] { trainer.AddGradients(bad, targets); }, "the token 1000");
  EXPECT_TRUE(Saved(trainer) == Saved(twin));
  trainer.AddGradients(share.last(1), targets);
  ExpectSame(trainer.Update(), twin.Step());
  EXPECT_TRUE(Saved(trainer) == Saved(twin));

  // Loading drops the step that was begun.
  const TempDir dir;
  trainer.Save(dir / "here");
  trainer.AddGradients(batches, targets);
  trainer.Load(dir / "here");
  ExpectRefused([&] { trainer.Update(); }, "there are no gradients");
  ExpectSame(trainer.Step(), twin.Step());
}

// A gradient that is not finite, whoever made it, ends the step and leaves the weights.
TEST(OwnBatches, AnInfiniteGradientChangesNothing) {
  const Context context({.threads = 1});
  Trainer trainer(TwoBatches(), context), twin(TwoBatches(), context);
  trainer.Step();
  twin.Step();
  const std::vector<Batch> batches = OwnBatches(trainer);
  trainer.AddGradients(batches, trainer.CountTargets(batches));
  trainer.Gradients().Data<float>()[5] = std::numeric_limits<float>::infinity();
  ExpectRefused([&] { trainer.Update(); },
                "training diverged at step 2: the gradient is not finite, first in the gradient of "
                "embedding.weight");
  EXPECT_EQ(trainer.step(), 1);
  EXPECT_TRUE(Saved(trainer) == Saved(twin));
  ExpectSame(trainer.Step(), twin.Step());
  EXPECT_TRUE(Saved(trainer) == Saved(twin));
}

// What the host says about a tally agrees with what AdamW does with it.
TEST(OwnBatches, StepsAreUnusableForTheSameReasonsAsForAdamW) {
  const double infinity = std::numeric_limits<double>::infinity();
  struct Tallied {
    std::vector<TallyEntry> entries;
    const char* why;
  };
  const Context context({.threads = 1});
  for (const auto& [entries, why] :
       {Tallied{{{.loss = 3, .squared_norm = 1}, {.nonpositive = 2, .empty = 1}}, ""},
        {{{.loss = infinity}, {}}, "the loss is not finite"},
        {{{.loss = std::nan("")}, {}}, "the loss is not finite"},
        {{{.squared_norm = infinity}, {}}, "the gradient is not finite"},
        {{{.loss = infinity}, {}, {.unusable = 4}},
         "layers.1: 4 rows are not finite or out of range"},
        {{{.unusable = 1}, {}}, "loss: 1 rows are not finite or out of range"}}) {
    EXPECT_EQ(train::Unusable(entries), why);
    layers::ParameterSet parameters({.seed = 1});
    const layers::Parameter& one = parameters.Add("one", {1}, {.mean = 1}, false);
    parameters.Allocate();
    parameters.ZeroGradients(context);
    *one.grad.Data<float>() = 1;
    Tally tally(context, std::ssize(entries));
    std::ranges::copy(entries, tally.At());
    train::AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 0});
    optimizer.Step(context, {.number = 1, .rate = 0.5}, tally, parameters);
    EXPECT_EQ(*one.value.Data<float>() == 1, *why != 0) << why;
  }
}

// Sequences that count up from a drawn start, modulo the vocabulary.
Batch Counting(int64_t vocab, uint64_t index) {
  const RandomStream stream = RandomStream(1, "counting").Child(index);
  Batch batch{.batch = 4, .length = 9};
  for (int64_t sequence = 0; sequence < 4; ++sequence) {
    const auto start = static_cast<int64_t>(stream.Bits(static_cast<uint64_t>(sequence)) % 97);
    for (int64_t i = 0; i < 9; ++i) {
      batch.tokens.push_back(static_cast<int32_t>((start + i) % vocab));
      batch.targets.push_back(static_cast<int32_t>((start + i + 1) % vocab));
    }
  }
  return batch;
}

RunConfig WithoutData() {
  RunConfig run = SmallRun();
  run.data.clear();
  run.model.vocab = 11;
  run.model.positions = Positions::kRotary;
  run.training.steps = 60;
  run.training.learning_rate = 1e-2;
  return run;
}

TEST(TrainerWithoutData, LearnsFromBatchesThatAreGiven) {
  const Context context({.threads = 1});
  const TempDir dir;
  Trainer trainer(WithoutData(), context);
  ExpectRefused([&] { trainer.Step(); }, "data: this trainer has none");
  ExpectRefused([&] { trainer.Evaluate(Split::kValid, 1); }, "data: this trainer has none");
  ExpectRefused([&] { trainer.data(); }, "data: this trainer has none");
  const auto step = [](Trainer& t) {
    return t.Step(std::vector{Counting(11, static_cast<uint64_t>(t.step()))}).loss;
  };
  const double first = step(trainer);
  while (trainer.step() < 30) step(trainer);
  trainer.Save(dir / "half", R"({"mine":1})");
  while (trainer.step() < 60) step(trainer);
  EXPECT_LT(step(trainer), 0.3 * first);
  // It continues bit for bit.
  Trainer second(WithoutData(), context), reference(WithoutData(), context);
  EXPECT_EQ(second.Load(dir / "half"), R"({"mine":1})");
  while (reference.step() < 45) step(reference);
  while (second.step() < 45) step(second);
  EXPECT_TRUE(Saved(second) == Saved(reference));
  // A file with only a model does not say what its tokens stand for.
  EXPECT_EQ(Model::Load(dir / "half").config().vocab, 11);
  ExpectRefused([&] { LoadTrained(dir / "half"); }, "holds only a model");
}

TEST(TrainerWithoutData, NeedsToKnowItsModel) {
  const Context context({.threads = 1});
  const auto refused = [&](const auto& change, const std::string& says) {
    RunConfig run = WithoutData();
    change(run);
    ExpectRefused([&] { Trainer(run, context); }, says);
  };
  refused([](RunConfig& run) { run.model.vocab = 0; }, "data: given nothing");
  refused([](RunConfig& run) { run.model.positions = Positions::kLearned; }, "max_length");
  refused([](RunConfig& run) { run.model.classes = 3; }, "classes: given 3");
  refused([](RunConfig& run) { run.task = Task::kClassify; }, "classes: given 0");
  RunConfig classify = WithoutData();
  classify.task = Task::kClassify;
  classify.model.classes = 2;
  Trainer trainer(classify, context);
  Batch batch = Counting(11, 0);
  batch.targets = {0, 1, 1, 0};
  EXPECT_EQ(trainer.CountTargets({&batch, 1}), 4);
  EXPECT_GT(trainer.Step({&batch, 1}).loss, 0);
  // A run has a folder, and data that can be found again.
  const TempDir dir;
  ExpectRefused([&] { Train(WithoutData(), {.out = dir / "run"}, context); },
                "data: given nothing");
}

}  // namespace
}  // namespace favor
