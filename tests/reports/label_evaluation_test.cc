#include "reports/label_evaluation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/json.h"
#include "favor/error.h"
#include "reports/baselines.h"
#include "reports/evaluation.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor::reports {
namespace {

// Two classes; logits 0 0, 0 2 and 1 0 of the classes 0, 1, 1.
LabelCases ThreeCases(Score& score) {
  LabelCases cases({.classes = 2}, {});
  Tensor logits({4, 2});
  const std::vector<float> values = {0, 0, 0, 2, 9, 9, 1, 0};
  std::ranges::copy(values, logits.Data<float>());
  score = cases.Add({.batch = 4, .length = 1, .targets = {0, 1, kNoTarget, 1}}, logits);
  return cases;
}

TEST(LabelCasesTest, ScoresAndTablesOfClasses) {
  Score score;
  const LabelEvaluation labels = ThreeCases(score).Measure();
  EXPECT_EQ(score.count, 3);
  EXPECT_EQ(score.correct, 2);
  EXPECT_NEAR(score.loss, std::log(2) + std::log(1 + std::exp(-2)) + std::log(1 + std::exp(1)),
              1e-9);
  const Table classes = ClassTable(*labels.classes, {"no", "yes"});
  EXPECT_EQ(classes.rows, (std::vector<std::vector<std::string>>{
                              {"no", "1", "2", "0.5000", "1.0000", "0.6667", "0.5000"},
                              {"yes", "2", "1", "1.0000", "0.5000", "0.6667", "0.5000"}}));
  const Table confusion = ConfusionTable(*labels.classes, {});
  EXPECT_EQ(confusion.columns, (std::vector<std::string>{"", "0", "1"}));
  EXPECT_EQ(confusion.rows,
            (std::vector<std::vector<std::string>>{{"0", "1", "0"}, {"1", "1", "1"}}));
  const Json json = ToJson(labels, {"no", "yes"});
  EXPECT_NEAR(json["accuracy"].get<double>(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(json["balanced_accuracy"].get<double>(), 0.75, 1e-12);
  EXPECT_NEAR(json["macro_f1"].get<double>(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(json["macro_auroc"].get<double>(), 0.5, 1e-12);
  const Json& yes = json["classes"][1];
  EXPECT_EQ(yes["class"], "yes");
  EXPECT_EQ(yes["cases"], 2);
  EXPECT_EQ(yes["predicted"], 1);
  EXPECT_EQ(yes["precision"], 1.0);
  EXPECT_EQ(yes["recall"], 0.5);
  const Table results = LabelResultsTable(
      {{"model", score, labels}, {.name = "guess", .score = {.loss = 3, .correct = 1, .count = 2}}},
      /*numbers=*/false, 1);
  EXPECT_EQ(results.rows[0],
            (std::vector<std::string>{"model", "0.7111", "0.6667", "0.7500", "0.6667", "0.5000"}));
  EXPECT_EQ(results.rows[1],
            (std::vector<std::string>{"guess", "1.5000", "0.5000", "—", "—", "—"}));
}

TEST(LabelCasesTest, Numbers) {
  LabelCases cases({.classes = 1, .numbers = true}, {.mean = 10, .deviation = 2});
  Tensor outputs({3, 1});
  outputs.Data<float>()[0] = 1;
  outputs.Data<float>()[1] = -1;
  outputs.Data<float>()[2] = 5;
  const Score score =
      cases.Add({.batch = 3, .length = 1, .values = {2, -1, std::nanf("")}}, outputs);
  EXPECT_EQ(score.count, 2);
  EXPECT_EQ(score.loss, 1);
  const LabelEvaluation labels = cases.Measure();
  EXPECT_DOUBLE_EQ(labels.numbers->rmse, std::sqrt(2.0));  // 12 instead of 14, 8 and 8
  EXPECT_EQ(labels.points, (std::vector<std::pair<double, double>>{{14, 12}, {8, 8}}));
  EXPECT_EQ(PredictionPlot(labels).series[0].points, labels.points);
  EXPECT_EQ(LabelResultsTable({{"m", score, labels}}, true, 2).rows[0],
            (std::vector<std::string>{"m", "1.414", "1", "0.7778", "1.0000", "1.0000"}));
  EXPECT_EQ(ToJson(labels, {})["mae"], 1.0);
  outputs.Data<float>()[0] = NAN;
  EXPECT_THROW(cases.Add({.batch = 1, .length = 1, .values = {2}}, outputs), Error);
}

// The 20 most frequent of 25 classes, in their order: class i occurs i + 1 times.
TEST(LabelCasesTest, ConfusionOfManyClasses) {
  std::vector<double> scores;
  std::vector<int32_t> actual;
  for (int32_t i = 0; i < 25; ++i) {
    for (int32_t j = 0; j <= i; ++j) {
      actual.push_back(i);
      for (int32_t k = 0; k < 25; ++k) scores.push_back(k == i ? 1 : 0);
    }
  }
  const Table table = ConfusionTable(MeasureClasses(scores, actual, 25), {});
  ASSERT_EQ(table.rows.size(), 20u);
  EXPECT_EQ(table.rows.front()[0], "5");
  EXPECT_EQ(table.rows.front()[1], "6");
  EXPECT_EQ(table.rows.back()[0], "24");
  EXPECT_EQ(table.rows.back()[20], "25");
  EXPECT_NE(table.caption.find("most frequent classes"), std::string::npos);
}

// A class, a number, or one for each letter; nothing is known of the second letter.
std::string LabelOfRecord(Task task, LabelOf label_of, int number, size_t letters) {
  const bool numbers = task == Task::kRegress;
  const std::string one = numbers ? std::to_string(number) : number % 3 == 0 ? "x" : "y";
  if (label_of == LabelOf::kSequence) return one;
  std::string all;
  for (size_t i = 0; i < letters; ++i) {
    if (numbers && i > 0) all += ',';
    all += i != 1 ? one : numbers ? "" : ".";
  }
  return all;
}

// What Evaluate says is what the model itself says, of a part of the split too.
class EvaluationOfLabels : public testing::TestWithParam<std::tuple<Task, LabelOf>> {};

TEST_P(EvaluationOfLabels, IsTheModelsScore) {
  const auto [task, label_of] = GetParam();
  const TempDir dir;
  std::string fasta, table;
  for (int i = 0; i < 50; ++i) {
    const std::string letters(static_cast<size_t>(3 + i % 5), "ACDE"[i % 4]);
    fasta += fmt::format(">r{}\n{}\n", i, letters);
    table += fmt::format("r{}\t{}\n", i, LabelOfRecord(task, label_of, i, letters.size()));
  }
  WriteText(dir / "p.fasta", fasta);
  WriteText(dir / "t.tsv", table);
  DataOptions options{.task = task, .format = {.valid = 0.2, .test = 0}};
  options.format.labels = dir / "t.tsv";
  options.format.label_of = label_of;
  const auto data = OpenData(dir / "p.fasta", options);
  ModelConfig config = SmallConfig(/*causal=*/false);
  config.vocab = data->vocab();
  config.max_length = 8;
  config.classes = data->classes();
  config.numbers = task == Task::kRegress;
  config.per_token = label_of == LabelOf::kToken;
  const Model model(config, 1);
  const Context context({.threads = 1});
  const auto evaluate = [&](int64_t batch, int64_t targets) {
    return Evaluate(model, *data,
                    {.split = Split::kAll, .batch = batch, .length = 6, .targets = targets},
                    context);
  };
  Score expected;
  for (int64_t i = 0; i < 50; ++i) {
    expected += model.Evaluate(data->EvalBatch(Split::kAll, {.index = i, .batch = 1, .length = 6}),
                               context);
  }
  const Evaluation whole = evaluate(7, INT64_MAX);
  EXPECT_EQ(whole.score.count, expected.count);
  EXPECT_EQ(whole.score.correct, expected.correct);
  EXPECT_NEAR(whole.score.loss, expected.loss, 1e-4 * expected.loss);
  EXPECT_TRUE(whole.all);
  const Evaluation part = evaluate(7, 20), same = evaluate(3, 20);
  EXPECT_GE(part.score.count, 20);
  EXPECT_LT(part.score.count, 26);
  EXPECT_FALSE(part.all);
  EXPECT_EQ(part.score.count, same.score.count);
  EXPECT_NEAR(part.score.loss, same.score.loss, 1e-4 * part.score.loss);
  if (task != Task::kRegress) return;
  // The baseline predicts the mean, which is 0, of the same numbers.
  double squares = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const Batch one = data->EvalBatch(Split::kAll, {.index = i, .batch = 1, .length = 6});
    if (count >= 20) break;
    for (const float value : one.values) {
      if (std::isnan(value)) continue;
      squares += static_cast<double>(value) * static_cast<double>(value);
      ++count;
    }
  }
  const Baselines baselines =
      MeasureBaselines(*data, {.task = task, .length = 6, .split = Split::kAll, .eval_tokens = 20});
  ASSERT_EQ(baselines.baselines.size(), 1u);
  EXPECT_EQ(baselines.baselines[0].name, "mean of training");
  EXPECT_EQ(baselines.baselines[0].score.count, part.score.count);
  EXPECT_NEAR(baselines.baselines[0].score.loss, squares, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(, EvaluationOfLabels,
                         testing::Combine(testing::Values(Task::kClassify, Task::kRegress),
                                          testing::Values(LabelOf::kSequence, LabelOf::kToken)));

}  // namespace
}  // namespace favor::reports
