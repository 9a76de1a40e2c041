// favor eval: what it prints, and what it refuses.
#include <fmt/format.h>

#include <cmath>

#include "tests/cli/train_fixture.h"

namespace favor {
namespace {

class EvalCommand : public TrainFixture {};

// bits = nats/ln 2 and perplexity = e^nats wherever they are printed, and the loss is indeed in
// nats.
TEST_F(EvalCommand, PrintsNatsBitsAndPerplexity) {
  const nlohmann::json result = Train();
  const auto check = [](const nlohmann::json& json) {
    const double loss = json["loss"].get<double>();
    EXPECT_NEAR(json["bits_per_token"].get<double>(), loss / 0.6931471805599453, 1e-12) << json;
    EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(loss), 1e-12) << json;
  };
  check(result["valid"]);
  int64_t evaluations = 0;
  std::istringstream lines(ReadText(run_ + "/log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("split")) continue;
    check(json);
    ++evaluations;
  }
  EXPECT_EQ(evaluations, 3);

  const std::vector<std::string> words = {"eval", "--model",   run_, "--split",
                                          "test", "--batches", "2",  "--quiet"};
  std::vector<std::string> with_json = words;
  with_json.emplace_back("--json");
  const ToolResult eval = RunTool(with_json), text = RunTool(words);
  ASSERT_EQ(eval.status, 0) << eval.err;
  const auto score = nlohmann::json::parse(eval.out);
  check(score);
  // −log of the probability of each target.
  const TrainedModel trained = LoadTrained(run_);
  const auto data = OpenData(trained.config);
  const TrainConfig& training = trained.config.training;
  double nats = 0, targets = 0;
  for (int64_t index = 0; index < 2; ++index) {
    const Batch batch = data->EvalBatch(
        Split::kTest, {.index = index, .batch = training.batch, .length = training.length});
    const Tensor logits = trained.model.Logits(batch, Context({.threads = 1}));
    const int64_t vocab = data->vocab();
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      if (batch.targets[i] == kNoTarget) continue;
      const float* row = logits.Data<float>() + static_cast<int64_t>(i) * vocab;
      double sum = 0;
      for (int64_t j = 0; j < vocab; ++j) sum += std::exp(static_cast<double>(row[j]));
      nats += std::log(sum) - row[batch.targets[i]];
      ++targets;
    }
  }
  const double loss = nats / targets;
  EXPECT_EQ(score["tokens"].get<double>(), targets);
  EXPECT_NEAR(score["loss"].get<double>(), loss, 1e-5);  // sums in float
  // The text for people has fewer digits.
  for (const std::string& figure :
       {fmt::format("loss {:.4f}", score["loss"].get<double>()),
        fmt::format("perplexity {:.3f}", std::exp(score["loss"].get<double>())),
        fmt::format("{:.4f} bits", score["loss"].get<double>() / 0.6931471805599453)})
    EXPECT_NE(text.out.find(figure), std::string::npos) << figure << " in " << text.out;
}

// Six targets per sequence of the copy task: --batch and --batches say how many sequences.
TEST_F(EvalCommand, ReadsAsManySequencesAsItIsTold) {
  Train();
  const auto targets = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--model", run_, "--json", "--quiet"});
    const ToolResult result = RunTool(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false)["tokens"];
  };
  EXPECT_EQ(targets({"--batches", "2"}), 2 * 4 * 6);  // the run's batch of 4
  EXPECT_EQ(targets({"--batches", "2", "--batch", "7"}), 2 * 7 * 6);
}

// Training needs gradients and moments besides what an evaluation needs.
TEST_F(EvalCommand, MemoryOfTrainingAndOfEvaluationComeApart) {
  const auto inspect = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", "model", "--preset", "tiny", "--length", "64", "--json"});
    const ToolResult result = RunTool(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  };
  const auto json = inspect({});
  const auto &training = json["training_bytes"], &evaluation = json["evaluation_bytes"];
  EXPECT_EQ(training["parameters"], 4 * json["parameters"].get<int64_t>());
  EXPECT_EQ(training["gradients"], training["parameters"]);
  EXPECT_EQ(training["optimizer"], 2 * training["parameters"].get<int64_t>());
  EXPECT_EQ(evaluation["parameters"], training["parameters"]);
  EXPECT_EQ(evaluation["gradients"], 0);
  EXPECT_EQ(evaluation["optimizer"], 0);
  EXPECT_LT(evaluation["activations"], training["activations"]);
  EXPECT_LT(inspect({"--recompute"})["training_bytes"]["activations"], training["activations"]);
}

TEST_F(EvalCommand, RefusesWhatDoesNotFit) {
  Train({"--positions", "learned"});
  const auto refused = [&](const std::vector<std::string>& words, int status,
                           const std::string& says) {
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  refused({"eval"}, 2, "--model");
  refused({"eval", "--model", dir_ / "none"}, 1, "none");
  refused({"eval", "--model", dir_.path().string()}, 1, "no checkpoint here");
  refused({"eval", "--model", run_, "--data", "task:copy,length=6,symbols=9"}, 1,
          "the model was trained with 6");
  refused({"eval", "--model", run_, "--data", "task:copy,length=9,symbols=5"}, 2,
          "learned positions");
  refused({"eval", "--model", run_, "--split", "vaild"}, 2, "did you mean 'valid'");
  refused({"inspect", "model", "--model", run_, "--length", "13"}, 2, "learned positions");
  refused({"inspect", "model", "--width", "7"}, 2, "a multiple");
  refused({"inspect", "model", "--model", run_, "--width", "8"}, 2, "one or the other");
  refused({"inspect", "model", "--batch", "1048576", "--length", "16777216", "--ff", "262144",
           "--layers", "1024", "--positions", "none"},
          1, "larger than any machine");
  EXPECT_EQ(RunTool({"inspect", "model", "--model", run_}).status, 0);
}

}  // namespace
}  // namespace favor
