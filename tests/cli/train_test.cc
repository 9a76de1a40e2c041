// favor train, eval and inspect as users call them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/command_line.h"
#include "models/checkpoint.h"
#include "tests/cli/train_fixture.h"
#include "tests/npy_file.h"
#include "tests/png_file.h"
#include "train/run_folder.h"

namespace favor {
namespace {

class TrainCommand : public TrainFixture {};

TEST_F(TrainCommand, LeavesARunThatCanBeUsed) {
  const nlohmann::json result = Train();
  EXPECT_EQ(result["steps"], 12);
  EXPECT_EQ(result["tokens"], 12 * 4 * 12);
  EXPECT_GT(result["valid"]["accuracy"], 0);
  ExpectNoTemporaries();
  int64_t steps = 0, evaluations = 0;
  std::istringstream lines(ReadText(run_ + "/log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    const bool evaluation = json.contains("split");
    ++(evaluation ? evaluations : steps);
    for (const char* key : {"step", "tokens", "loss", "accuracy"})
      EXPECT_TRUE(json.contains(key)) << line;
    if (!evaluation) {
      EXPECT_TRUE(json.contains("learning_rate") && json.contains("tokens_per_second")) << line;
    }
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(evaluations, 3);
  const auto config = nlohmann::json::parse(ReadText(run_ + "/config.json"));
  EXPECT_EQ(config["model"]["width"], 16);
  EXPECT_EQ(config["model"]["vocab"], 6);
  EXPECT_EQ(config["training"]["length"], 12);

  // The model is that of the best evaluation; both ways to name it agree.
  const ToolResult eval = RunTool({"eval", "--model", run_, "--batches", "2", "--json", "--quiet"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  const auto score = nlohmann::json::parse(eval.out);
  EXPECT_NEAR(score["loss"].get<double>(), result["best_loss"].get<double>(), 1e-12);
  for (const char* key : {"accuracy", "perplexity", "bits_per_token", "tokens"})
    EXPECT_TRUE(score.contains(key)) << key;
  EXPECT_GE(score["baseline_accuracy"].get<double>(), 0.2);  // the most frequent of five symbols
  const ToolResult file = RunTool({"eval", "--model", run_ + "/best.safetensors", "--batches", "2",
                                   "--json", "--quiet", "--threads", "3"});
  EXPECT_EQ(nlohmann::json::parse(file.out)["loss"], score["loss"]);

  const ToolResult inspect = RunTool({"inspect", "model", "--model", run_, "--length", "12"});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  EXPECT_NE(inspect.out.find("layers.0.attention"), std::string::npos) << inspect.out;
}

TEST_F(TrainCommand, SameBitsForAnyNumberOfThreadsAndRuns) {
  Train();
  const std::string log = Log(), weights = Weights();
  for (const char* threads : {"1", "2", "3", "8"}) {
    std::filesystem::remove_all(run_);
    Train({"--threads", threads});
    EXPECT_TRUE(Log() == log) << threads;
    EXPECT_TRUE(Weights() == weights) << threads;
  }
}

TEST_F(TrainCommand, AConfigRepeatsARun) {
  Train();
  const std::string log = Log();
  std::filesystem::rename(run_, dir_ / "first");
  const ToolResult again = RunTool({"train", "--config", dir_ / "first/config.json", "--out", run_,
                                    "--quiet", "--threads", "2"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(Log() == log);
  // Options override the file.
  std::filesystem::remove_all(run_);
  ASSERT_EQ(RunTool({"train", "--config", dir_ / "first/config.json", "--out", run_, "--quiet",
                     "--steps", "2"})
                .status,
            0);
  EXPECT_EQ(nlohmann::json::parse(ReadText(run_ + "/config.json"))["training"]["steps"], 2);
}

// Heads that forget and heads of several kinds: config, resumption, generation, inspection.
TEST_F(TrainCommand, HeadsMayForgetAndBeMixed) {
  const std::vector<std::string> mixed = {
      "--heads-of", "relu:1:decay=token,taylor:1:dim=3", "--exact-every", "2", "--layers", "2"};
  const nlohmann::json result = Train(mixed);
  const auto config = nlohmann::json::parse(ReadText(run_ + "/config.json"));
  EXPECT_EQ(config["model"]["heads_of"], "relu:1:decay=token,taylor:1:dim=3");
  EXPECT_EQ(config["model"]["exact_every"], 2);
  const ToolResult inspect = RunTool({"inspect", "model", "--model", run_, "--json"});
  ASSERT_EQ(inspect.status, 0) << inspect.err;
  const auto memories = nlohmann::json::parse(inspect.out)["head_memories"];
  ASSERT_EQ(memories.size(), 2u);
  EXPECT_NEAR(memories[0][0].get<double>(), 16, 4);  // it has learned for twelve steps
  EXPECT_TRUE(memories[0][1].is_null());
  EXPECT_TRUE(memories[1][0].is_null());  // the second layer is exact
  const ToolResult text = RunTool({"inspect", "model", "--model", run_});
  EXPECT_NE(text.out.find("Memory of heads, in tokens"), std::string::npos) << text.out;
  const ToolResult generated =
      RunTool({"generate", "--model", run_, "--tokens", "5", "--prompt", "1 2"});
  EXPECT_EQ(generated.status, 0) << generated.err;
  ExpectError(RunTool(Words({"--heads-of", "relu:1", "--out", dir_ / "other"})), 2,
              "1 heads in all, expected 2");
  ExpectError(RunTool(Words({"--decay", "token", "--attention", "exact", "--out", dir_ / "other"})),
              2, "expected linear attention");
  ExpectError(RunTool(Words({"--feature-dim", "9", "--out", dir_ / "other"})), 2,
              "feature_dim: given 9 with heads of 8 columns");
}

TEST_F(TrainCommand, StopsEarlyWhenNothingImproves) {
  const nlohmann::json result = Train({"--learning-rate", "0", "--patience", "1", "--redraw", "0"});
  EXPECT_EQ(result["steps"], 8);
  EXPECT_EQ(result["stopped_early"], true);
  EXPECT_EQ(result["best_step"], 4);
  const std::string log = Log();
  EXPECT_EQ(
      Train({"--learning-rate", "0", "--patience", "1", "--redraw", "0", "--resume"})["steps"], 8);
  EXPECT_TRUE(Log() == log);
}

TEST_F(TrainCommand, RefusesToOverwriteARun) {
  Train();
  const std::string weights = Weights(), log = ReadText(run_ + "/log.jsonl");
  const ToolResult result = RunTool(Words());
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("holds a run already"), std::string::npos) << result.err;
  EXPECT_TRUE(Weights() == weights);
  EXPECT_EQ(ReadText(run_ + "/log.jsonl"), log);
}

// Wrong options of --resume are refused, and nothing of the run changes.
TEST_F(TrainCommand, RefusesToResumeSomethingElse) {
  Train();
  const std::string weights = Weights();
  const auto refused = [&](const std::vector<std::string>& more, int status,
                           const std::string& says) {
    std::vector<std::string> words = Words(more);
    words.emplace_back("--resume");
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_TRUE(Weights() == weights);
  };
  refused({"--width", "32"}, 2, "width: given 32, but the run in");
  refused({"--data", "task:copy,length=6,symbols=7"}, 2, "data: given");
  refused({"--steps", "13"}, 2, "steps");
  const ToolResult preset = RunTool({"train", "--out", run_, "--resume", "--preset", "small"});
  EXPECT_EQ(preset.status, 2);
  EXPECT_NE(preset.err.find("width: given 64"), std::string::npos) << preset.err;
  // A vocabulary that is not the data's.
  const std::string config = ReadText(run_ + "/config.json");
  std::string other = config;
  other.replace(other.find("symbols=5"), 9, "symbols=7");
  WriteText(run_ + "/config.json", other);
  const ToolResult result = RunTool({"train", "--out", run_, "--resume"});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_NE(result.err.find("vocab"), std::string::npos) << result.err;
  WriteText(run_ + "/config.json", config);
  EXPECT_EQ(RunTool({"train", "--out", run_, "--resume", "--quiet"}).status, 0);
}

// Folders with missing or foreign files are refused; what is there stays as it is.
TEST_F(TrainCommand, RefusesFoldersThatAreNoWholeRun) {
  const auto refused = [&](const std::vector<std::string>& words, int status,
                           const std::string& says) {
    const ToolResult result = RunTool(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  };
  std::filesystem::create_directory(run_);
  WriteText(run_ + "/log.jsonl", "notes\n");
  refused(Words(), 2, "holds a run already (log.jsonl)");
  EXPECT_EQ(ReadText(run_ + "/log.jsonl"), "notes\n");
  std::filesystem::remove_all(run_);

  Train();
  const std::string config = ReadText(run_ + "/config.json"), best = Weights("best");
  std::filesystem::rename(run_ + "/last.safetensors", dir_ / "kept");
  refused({"train", "--out", run_, "--resume"}, 1, "no last.safetensors");
  EXPECT_TRUE(Weights("best") == best);
  std::filesystem::rename(dir_ / "kept", run_ + "/last.safetensors");
  // The config is in the checkpoint too.
  std::filesystem::remove(run_ + "/config.json");
  EXPECT_EQ(RunTool({"train", "--out", run_, "--resume", "--quiet"}).status, 0);
  EXPECT_EQ(ReadText(run_ + "/config.json"), config);
  // A checkpoint outside a run's folder is a file like any other.
  std::filesystem::create_directory(dir_ / "elsewhere");
  std::filesystem::copy(run_ + "/best.safetensors", dir_ / "elsewhere/model.safetensors");
  WriteText(dir_ / "elsewhere/config.json", "{}");
  EXPECT_EQ(RunTool({"eval", "--model", dir_ / "elsewhere/model.safetensors", "--quiet"}).status,
            0);
}

TEST_F(TrainCommand, RefusesDataThatChanged) {
  const std::string text = dir_ / "text";
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += std::to_string(i * i);
  WriteText(text, bytes);
  const std::vector<std::string> more = {"--data", text, "--length", "16"};
  Train(more);
  bytes[7] = 'x';
  WriteText(text, bytes);
  const ToolResult result = RunTool({"train", "--out", run_, "--resume"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("has changed since the run began"), std::string::npos) << result.err;
}

// This includes fields that config.json holds only if they are not the default.
TEST_F(TrainCommand, ResumesOnlyWithTheSameConfig) {
  Train({"--norm-epsilon", "1e-3"});
  ExpectError(RunTool({"train", "--out", run_, "--resume", "--norm-epsilon", "1e-5"}), 2,
              "norm_epsilon: given 1e-05, but the run in '" + run_ + "' has 0.001");
  ExpectError(RunTool({"train", "--out", run_, "--resume", "--embedding-scale", "1"}), 2,
              "embedding_scale: given 1.0, but the run in '" + run_ + "' has null");
  ExpectError(RunTool({"train", "--out", run_, "--resume", "--window", "4"}), 2,
              "window: given 4, but the run in '" + run_ + "' has null");
  EXPECT_EQ(RunTool({"train", "--out", run_, "--resume", "--norm-epsilon", ".001"}).status, 0);
}

// The commands that a report prints to repeat a run are understood by the tool.
TEST_F(TrainCommand, ReportsPrintCommandsThatRun) {
  Train({"--no-tied", "--positions", "rotary", "--activation", "gelu-tanh", "--norm-epsilon",
         "1e-3", "--embedding-scale", "1", "--attention", "exact-window", "--window", "5"});
  const std::string command = cli::CommandOf(train::ReadRunFolder(run_).config, dir_ / "again");
  for (const char* option : {" --no-tied", " --activation gelu-tanh", " --norm-epsilon 0.001",
                             " --embedding-scale 1.0", " --attention exact-window", " --window 5"})
    EXPECT_NE(command.find(option), std::string::npos) << command;
  const auto model = nlohmann::json::parse(ReadText(run_ + "/config.json"))["model"];
  EXPECT_EQ(model["window"], 5);
  ASSERT_TRUE(command.starts_with("favor "));
  const ToolResult result = RunToolUnder(
      {"sh", "-c", "\"$0\" " + command.substr(6) + " --quiet --no-report --threads 1"}, {});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(ReadText(dir_ / "again/last.safetensors"), Weights());
}

// Pictures from an array, and an error of one line if their depth is wrong.
TEST_F(TrainCommand, LearnsPixels) {
  std::string pixels;
  for (int i = 0; i < 200 * 12; ++i) pixels += static_cast<char>(i * i / 7);
  WriteText(dir_ / "pictures.npy", NpyFile("|u1", "(200, 2, 2, 3)", pixels));
  const nlohmann::json result = Train({"--data", dir_ / "pictures.npy", "--steps", "2"});
  EXPECT_EQ(result["tokens"], 2 * 4 * 12);
  const auto config = nlohmann::json::parse(ReadText(run_ + "/config.json"));
  EXPECT_EQ(config["model"]["vocab"], 259);
  EXPECT_EQ(config["training"]["length"], 12);
  const ToolResult eval = RunTool({"eval", "--model", run_, "--json", "--quiet"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  const auto score = nlohmann::json::parse(eval.out);
  EXPECT_NEAR(score["bits_per_token"].get<double>(), 8,
              1);  // hardly trained: nearly all 259 tokens alike

  run_ = dir_ / "out-of-nothing";
  WriteText(dir_ / "deep.npy", NpyFile("<u2", "(200, 2, 3)", pixels));
  ExpectError(RunTool(Words({"--data", dir_ / "deep.npy"})), 1,
              "deep.npy: given integers ('<u2'), expected unsigned bytes");
  WriteText(dir_ / "deep.png", Png(1, 2, {1, 2, 3, 4}, {.bits = 16}));
  ExpectError(RunTool(Words({"--data", dir_ / "deep.png"})), 1,
              "deep.png: has 16 bits per channel, expected 8");
}

TEST_F(TrainCommand, RefusesWrongOptions) {
  run_ = dir_ / "out-of-nothing";
  ExpectError(RunTool(Words({"--width", "17"})), 2, "a multiple");
  ExpectError(RunTool(Words({"--heads", "0"})), 2, "--heads: given '0'");
  ExpectError(RunTool(Words({"--width", "many"})), 2, "--width: given 'many'");
  ExpectError(RunTool(Words({"--positions", "lerned"})), 2, "did you mean 'learned'");
  ExpectError(RunTool(Words({"--dropuot", "1"})), 2, "did you mean '--dropout'");
  ExpectError(RunTool(Words({"--dropout", "1.5"})), 2, "--dropout: given '1.5'");
  ExpectError(RunTool(Words({"--dropout", "nan"})), 2, "--dropout: given");
  ExpectError(RunTool(Words({"--length", "13"})), 2, "length: given 13, expected 12");
  ExpectError(RunTool(Words({"--positions", "learned", "--max-length", "5"})), 2,
              "learned positions");
  ExpectError(RunTool(Words({"--task", "classify"})), 2, "expected causal");
  ExpectError(RunTool(Words({"--window", "9"})), 2, "given window, which 'linear' attention does");
  ExpectError(RunTool(Words({"--window", "-1"})), 2, "--window: given '-1'");
  ExpectError(RunTool(Words({"--epsilon", "0"})), 2, "--epsilon: given '0'");
  ExpectError(RunTool(Words({"--data", "/dev/zero"})), 1, "expected a file");
  ExpectError(RunTool(Words({"--data", dir_ / "b\xff.txt"})), 2, "UTF-8");
  ExpectError(RunTool(Words({"--config", "/dev/zero"})), 1, "expected a file");
  ExpectError(RunTool(Words({"--data", dir_ / "none.txt"})), 1, "none.txt");
  ExpectError(RunTool(Words({"--map", "regularized", "--projection", "none"})), 2, "");
  ExpectError(RunTool({"train", "--data", "task:copy"}), 2, "--out");
  ExpectError(RunTool({"train", "--out", run_}), 2, "--data");
  ExpectError(RunTool({"train", "--out", run_, "--resume"}), 2, "no run to resume");
  WriteText(dir_ / "bad.json", R"({"model": {"widht": 8}})");
  ExpectError(RunTool(Words({"--config", dir_ / "bad.json"})), 2, "did you mean 'width'");
  WriteText(dir_ / "bad.json", R"({"training": {"steps": "ten"}})");
  ExpectError(RunTool(Words({"--config", dir_ / "bad.json"})), 2, "steps: given 'ten'");
  WriteText(dir_ / "bad.json", R"({"modle": {}})");
  ExpectError(RunTool(Words({"--config", dir_ / "bad.json"})), 2, "did you mean 'model'");
  WriteText(dir_ / "bad.json", R"({"model": )");
  ExpectError(RunTool(Words({"--config", dir_ / "bad.json"})), 2, "not JSON");
}

TEST_F(TrainCommand, RefusesFoldersThatCannotBeWritten) {
  WriteText(dir_ / "file", "");
  run_ = dir_ / "file/run";
  ExpectError(RunTool(Words()), 1, "file/run");
  run_ = "/proc/favor-out";
  ExpectError(RunTool(Words()), 1, "/proc/favor-out");
}

// Two processes in one folder would write over each other.
TEST_F(TrainCommand, OneRunAtATime) {
  std::filesystem::create_directory(run_);
  const ToolResult result = RunToolUnder({"flock", run_}, Words());
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("another favor process"), std::string::npos) << result.err;
}

TEST_F(TrainCommand, ADiskThatFillsUpLosesNothing) {
  Train({"--steps", "5"});
  std::filesystem::remove(run_ + "/config.json");
  std::filesystem::remove_all(run_);
  // A limit on the size of files: the log and the first checkpoint stay below it, the checkpoint of
  // a run with more in its log does not. The write then fails as on a full disk.
  const ToolResult full = RunToolUnder({"prlimit", "--fsize=20000"}, Words());
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.err.find("writing failed"), std::string::npos) << full.err;
  ExpectNoTemporaries();
}

// Any changed byte of a checkpoint or a config is noticed, and so is any cut.
TEST_F(TrainCommand, DamageIsSeen) {
  Train();
  const std::string last = run_ + "/last.safetensors", whole = ReadText(last);
  const auto refused = [&](const std::string& what) {
    const ToolResult result = RunTool({"train", "--out", run_, "--resume", "--quiet"});
    EXPECT_EQ(result.status, 1) << what << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  for (size_t at = 3; at < whole.size(); at += whole.size() / 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    WriteText(last, damaged);
    refused("flip at " + std::to_string(at));
    WriteText(last, whole.substr(0, at));
    refused("cut at " + std::to_string(at));
  }
  WriteText(last, whole);
  const std::string config = run_ + "/config.json", text = ReadText(config);
  std::string damaged = text;
  damaged.replace(damaged.find("0.98"), 4, "0.97");
  WriteText(config, damaged);
  refused("config");
  EXPECT_EQ(RunTool({"eval", "--model", run_}).status, 1);
}

// A run must not write over what it learns from.
TEST_F(TrainCommand, RefusesFoldersOfItsOwnData) {
  std::filesystem::create_directories(run_);
  WriteText(run_ + "/log.jsonl", std::string(5000, 'a'));
  ExpectError(RunTool(Words({"--data", run_ + "/log.jsonl", "--length", "16", "--resume"})), 2,
              "would write into its own data");
  std::filesystem::create_directories(dir_ / "pictures");
  ExpectError(RunTool(Words({"--data", dir_ / "pictures", "--out", dir_ / "pictures/run"})), 2,
              "would write into its own data");
  ExpectError(RunTool(Words({"--data", dir_ / "pictures", "--out", dir_ / "pictures"})), 2,
              "would write into its own data");
}

// Short sequences may have no masked tokens in a step: it has no loss, and none in the report.
TEST_F(TrainCommand, StepsWithoutTargetsHaveNoLoss) {
  WriteText(dir_ / "p.fasta",
            ">a\nMKTA\n>b\nMKLV\n>c\nAAAA\n>d\nMMMM\n>e\nKKKK\n>f\nLLLL\n"
            ">g\nVVVV\n>h\nTTTT\n>i\nMLVA\n>j\nKTKT\n>k\nLALA\n>l\nMVMV\n");
  const ToolResult result =
      RunTool(Words({"--data", dir_ / "p.fasta", "--task", "masked", "--length", "4", "--batch",
                     "1", "--steps", "40", "--valid-share", "0.3", "--eval-batches", "0"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const train::RunFolder folder = train::ReadRunFolder(run_);
  EXPECT_GT(folder.steps.size(), 0u);
  EXPECT_LT(folder.steps.size(), 40u);
  for (const train::LogPoint& point : folder.steps) EXPECT_GT(point.loss, 0.1);
}

// A run that breaks off has been saved at the steps it was told to.
TEST_F(TrainCommand, SavesWhenItWasTold) {
  const ToolResult result =
      RunTool(Words({"--learning-rate", "1000", "--clip", "0", "--warmup", "90", "--steps", "400",
                     "--save-every", "3", "--eval-every", "0"}));
  ASSERT_EQ(result.status, 1) << result.out;
  const std::string says = "diverged at step ";
  const size_t at = result.err.find(says);
  ASSERT_NE(at, std::string::npos) << result.err;
  const int64_t failed = std::stoll(result.err.substr(at + says.size()));
  ASSERT_GT(failed, 3) << "too early to tell";
  const auto saved = [&] {
    const models::Checkpoint last(run_ + "/last.safetensors");
    return nlohmann::json::parse(last.info().state)["step"].get<int64_t>();
  };
  EXPECT_EQ(saved(), (failed - 1) / 3 * 3);
  // By time: a step takes more than a nanosecond, and all of them less than ten minutes.
  for (const auto& [minutes, step] :
       {std::pair{"1e-11", failed - 1}, {"0", int64_t{0}}, {"10", int64_t{0}}}) {
    std::filesystem::remove_all(run_);
    ASSERT_EQ(
        RunTool(Words({"--learning-rate", "1000", "--clip", "0", "--warmup", "90", "--steps", "400",
                       "--save-every", "0", "--eval-every", "0", "--save-minutes", minutes}))
            .status,
        1);
    EXPECT_EQ(saved(), step) << minutes;
  }
  std::filesystem::remove_all(run_);
  const ToolResult negative = RunTool(Words({"--save-minutes", "-1"}));
  EXPECT_EQ(negative.status, 2);
  EXPECT_NE(negative.err.find("save_minutes: given -1, expected a number, 0 or more"),
            std::string::npos)
      << negative.err;
}

}  // namespace
}  // namespace favor
