// Models of labels from the command line: trained, evaluated, used and reported on.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tests/cli/train_fixture.h"
#include "tests/data/fasta_fixture.h"

namespace favor {
namespace {

// 120 proteins; those with many W are of class "w w", which their order does not tell.
class LabelCommands : public TrainFixture {
 protected:
  LabelCommands() {
    std::string records, classes = "id\tkind\n", numbers, tokens;
    for (uint64_t i = 0; i < 120; ++i) {
      std::string letters = RandomSequence(i, 8 + i % 9);
      const bool many = i % 7 < 3;
      if (many) letters.replace(2, 4, "WWWW");
      records += fmt::format(">p{} words\n{}\n", i, letters);
      classes += fmt::format("p{}\t{}\n", i, many ? "w w" : "other");
      numbers += fmt::format("p{}\t{}\n", i, many ? 30 : 10);
      tokens += fmt::format("p{}\t", i);
      for (const char letter : letters) tokens += letter == 'W' ? 'w' : 'o';
      tokens += "\n";
      class_of_[fmt::format("p{}", i)] = many ? 1 : 0;
    }
    WriteText(data_, records);
    WriteText(dir_ / "classes.tsv", classes);
    WriteText(dir_ / "numbers.tsv", numbers);
    WriteText(dir_ / "tokens.tsv", tokens);
  }

  std::vector<std::string> Of(const std::string& table, const std::string& task,
                              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "--data",         data_,  "--labels",      dir_ / table, "--task",          task,
        "--length",       "16",   "--steps",       "60",         "--learning-rate", "0.01",
        "--map",          "relu", "--redraw",      "0",          "--eval-every",    "20",
        "--eval-batches", "0",    "--valid-share", "0.2",        "--test-share",    "0.2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  nlohmann::json Eval(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"eval", "--model", run_, "--json", "--quiet", "--threads", "1"});
    const ToolResult result = RunTool(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  // Lines of a table, as cells.
  std::vector<std::vector<std::string>> Predict(std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"predict", "--model", run_, "--data", data_, "--quiet", "--threads", "1"});
    const ToolResult result = RunTool(more);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::vector<std::string>> lines;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) {
      lines.emplace_back();
      std::istringstream cells(line);
      for (std::string cell; std::getline(cells, cell, '\t');) lines.back().push_back(cell);
    }
    return lines;
  }

  std::string data_ = dir_ / "p.fasta";
  std::map<std::string, int> class_of_;
};

// All figures of favor eval follow from what favor predict says of the same records.
TEST_F(LabelCommands, FiguresAreThoseOfThePredictions) {
  Train(Of("classes.tsv", "classify"));
  const auto lines = Predict();
  ASSERT_EQ(lines.size(), 121u);
  EXPECT_EQ(lines[0], (std::vector<std::string>{"id", "class", "probability", "other", "w w"}));
  std::map<std::pair<int, int>, int64_t> confusion;
  std::vector<std::pair<double, int>> cases;  // probability of "w w", class
  double loss = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const int is = class_of_.at(lines[i][0]), said = lines[i][1] == "w w" ? 1 : 0;
    ++confusion[{is, said}];
    cases.emplace_back(std::stod(lines[i][4]), is);
    EXPECT_EQ(lines[i][2], lines[i][static_cast<size_t>(3 + said)]);
    loss -= std::log(std::stod(lines[i][static_cast<size_t>(3 + is)])) / 120;
  }
  double higher = 0, pairs = 0;
  for (const auto& [member, yes] : cases) {
    for (const auto& [other, also] : cases) {
      if (yes == 0 || also == 1) continue;
      ++pairs;
      higher += member > other ? 1 : member == other ? 0.5 : 0;
    }
  }
  const auto all = Eval({"--split", "all"});
  EXPECT_EQ(all["tokens"], 120);
  EXPECT_NEAR(all["loss"].get<double>(), loss, 1e-3);
  const auto& labels = all["labels"];
  for (const int is : {0, 1}) {
    for (const int said : {0, 1})
      EXPECT_EQ(
          labels["confusion"][static_cast<size_t>(is)][static_cast<size_t>(said)].get<int64_t>(),
          (confusion[{is, said}]));
  }
  const auto right = static_cast<double>(confusion[{0, 0}] + confusion[{1, 1}]);
  EXPECT_NEAR(all["accuracy"].get<double>(), right / 120, 1e-9);
  EXPECT_GT(right, 100);                                                           // it has learned
  EXPECT_NEAR(labels["classes"][1]["auroc"].get<double>(), higher / pairs, 0.01);  // four digits
  EXPECT_EQ(labels["classes"][1]["class"], "w w");
  EXPECT_FALSE(all.contains("perplexity"));
  const ToolResult text = RunTool({"eval", "--model", run_, "--quiet"});
  EXPECT_NE(text.out.find("means over classes: accuracy"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("Confusion"), std::string::npos) << text.out;
}

TEST_F(LabelCommands, NumbersAndTheirReport) {
  Train(Of("numbers.tsv", "regress"));
  const auto json = Eval({"--split", "all"});
  EXPECT_FALSE(json.contains("accuracy"));
  const auto lines = Predict();
  EXPECT_EQ(lines[0], (std::vector<std::string>{"id", "value"}));
  double squares = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const double error = std::stod(lines[i][1]) - (class_of_.at(lines[i][0]) == 1 ? 30 : 10);
    squares += error * error / 120;
  }
  EXPECT_NEAR(json["labels"]["rmse"].get<double>(), std::sqrt(squares), 1e-3);
  EXPECT_LT(std::sqrt(squares), 7);  // the deviation is 9.9
  const ToolResult report =
      RunTool({"report", run_, "--out", dir_ / "r.html", "--json", "--quiet", "--threads", "1"});
  ASSERT_EQ(report.status, 0) << report.err;
  const std::string page = ReadText(dir_ / "r.html");
  for (const char* part : {"How well sequences are predicted", "mean of training",
                           "Predicted numbers", "squared error of scaled numbers"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("Accuracy"), std::string::npos);
  const ToolResult text = RunTool({"eval", "--model", run_, "--quiet"});
  EXPECT_NE(text.out.find("root mean squared error"), std::string::npos) << text.out;
}

TEST_F(LabelCommands, LabelsOfTokens) {
  Train(Of("tokens.tsv", "classify", {"--label-of", "token"}));
  const auto lines = Predict();
  EXPECT_EQ(lines[0], (std::vector<std::string>{"id", "position", "token", "class", "probability",
                                                "o", "w"}));
  EXPECT_EQ(lines[1][1], "1");
  EXPECT_EQ(Predict({"--length", "5", "--batch", "7"}).size(), 1u + 120 * 5);
  int64_t right = 0;
  for (size_t i = 1; i < lines.size(); ++i) right += (lines[i][2] == "W") == (lines[i][3] == "w");
  const auto json = Eval({"--split", "all"});
  EXPECT_EQ(json["tokens"].get<size_t>(), lines.size() - 1);
  EXPECT_NEAR(json["accuracy"].get<double>(),
              static_cast<double>(right) / static_cast<double>(lines.size() - 1), 1e-9);
  EXPECT_GT(json["accuracy"].get<double>(), 0.95);
  const ToolResult report = RunTool({"report", run_, "--out", dir_ / "r.html", "--quiet"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_NE(ReadText(dir_ / "r.html").find("How well residues are classified"), std::string::npos);
}

// A run keeps its table; it goes on, and is evaluated, without the original.
TEST_F(LabelCommands, TheRunKeepsItsTable) {
  Train(Of("classes.tsv", "classify"));
  const std::string whole = Weights();
  const auto before = Eval();
  std::filesystem::remove_all(run_);
  Train(Of("classes.tsv", "classify", {"--steps", "60", "--patience", "0"}));
  EXPECT_EQ(Weights(), whole);
  std::filesystem::remove(dir_ / "classes.tsv");
  EXPECT_EQ(Eval()["loss"], before["loss"]);
  EXPECT_TRUE(std::filesystem::exists(run_ + "/labels.tsv"));
  const ToolResult again = RunTool({"train", "--out", run_, "--resume", "--quiet", "--no-report"});
  EXPECT_EQ(again.status, 0) << again.err;
}

// Another table and other records, with the classes and the scale that the model knows.
TEST_F(LabelCommands, OtherDataWithItsOwnTable) {
  Train(Of("classes.tsv", "classify"));
  WriteText(dir_ / "new.fasta", ">a\nMKWWWWTAY\n>b\nMKTAYGGD\n>c\nMK\n");
  WriteText(dir_ / "new.tsv", "a\tw w\n");
  const auto json = Eval({"--data", dir_ / "new.fasta", "--labels", dir_ / "new.tsv"});
  EXPECT_EQ(json["tokens"], 1);
  EXPECT_EQ(json["labels"]["classes"][1]["cases"], 1);
  EXPECT_FALSE(json["own_data"]);
  // What is held out follows from the labels: other ones would move it.
  ExpectError(RunTool({"eval", "--model", run_, "--labels", dir_ / "classes.tsv", "--quiet"}), 2,
              "given without --data");
  WriteText(dir_ / "strange.tsv", "a\tstrange\nb\tw w\n");
  ExpectError(RunTool({"eval", "--model", run_, "--data", dir_ / "new.fasta", "--labels",
                       dir_ / "strange.tsv", "--quiet"}),
              1, "line 1: given the class 'strange', expected one of: other, w w");
  ExpectError(RunTool({"eval", "--model", run_, "--data", dir_ / "new.fasta", "--quiet"}), 1,
              "names no record of");
}

// Numbers of other records, in the units that the model has learned.
TEST_F(LabelCommands, OtherNumbers) {
  Train(Of("numbers.tsv", "regress"));
  WriteText(dir_ / "new.fasta", ">a\nMKWWWWTAY\n>b\nMKTAYGGD\n");
  WriteText(dir_ / "new.tsv", "a\t1000\nb\t50\n");
  const auto json = Eval({"--data", dir_ / "new.fasta", "--labels", dir_ / "new.tsv"});
  data_ = dir_ / "new.fasta";
  const auto lines = Predict();
  const double a = std::stod(lines[1][1]) - 1000, b = std::stod(lines[2][1]) - 50;
  EXPECT_NEAR(json["labels"]["rmse"].get<double>(), std::sqrt((a * a + b * b) / 2), 1e-2);
  EXPECT_NEAR(json["labels"]["mae"].get<double>(), (std::abs(a) + std::abs(b)) / 2, 1e-2);
}

// From a decoder of the same records: it stays one, and its output is drawn anew.
TEST_F(LabelCommands, StartsFromALanguageModel) {
  Train({"--data", data_, "--length", "16", "--layout", "crop", "--steps", "20"});
  const std::string language = run_;
  run_ = dir_ / "labels";
  const ToolResult result =
      RunTool({"train", "--init", language, "--labels", dir_ / "classes.tsv", "--task", "classify",
               "--steps", "10", "--warmup", "2", "--class-weights", "balanced", "--out", run_,
               "--json", "--no-report", "--threads", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto config = nlohmann::json::parse(ReadText(run_ + "/config.json"));
  EXPECT_EQ(config["model"]["causal"], true);
  EXPECT_EQ(config["format"]["layout"], "clip");
  EXPECT_EQ(config["training"]["class_weights"], "balanced");
  EXPECT_FALSE(config["training"].contains("first_batch"));
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_EQ(json["start"]["drawn"],
            (nlohmann::json::array({"classifier.weight", "classifier.bias"})));
  EXPECT_EQ(Predict().size(), 121u);
  // An encoder and a decoder read records differently: each is evaluated on what it reads.
  const double loss = Eval({"--split", "test"})["loss"].get<double>();
  const std::string decoder = run_;
  run_ = dir_ / "scratch";
  Train(Of("classes.tsv", "classify", {"--steps", "5"}));
  const ToolResult report = RunTool(
      {"report", run_, decoder, "--json", "--out", dir_ / "r.html", "--quiet", "--threads", "1"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_NEAR(nlohmann::json::parse(report.out)["runs"][1]["score"]["loss"].get<double>(), loss,
              1e-6);
  // And back: other targets, the same weights.
  run_ = dir_ / "back";
  const ToolResult back = RunTool({"train", "--init", decoder, "--task", "causal", "--steps", "2",
                                   "--out", run_, "--quiet", "--no-report"});
  EXPECT_EQ(back.status, 0) << back.err;
}

// The command of the report repeats the run.
TEST_F(LabelCommands, TheReportSaysHowToRepeatIt) {
  Train(Of("tokens.tsv", "classify", {"--label-of", "token", "--steps", "3"}));
  const ToolResult report = RunTool({"report", run_, "--out", dir_ / "r.html", "--quiet"});
  ASSERT_EQ(report.status, 0) << report.err;
  const std::string page = ReadText(dir_ / "r.html");
  const size_t begin = page.find("favor train --data");
  ASSERT_NE(begin, std::string::npos);
  const std::string command = page.substr(begin, page.find('\n', begin) - begin);
  EXPECT_NE(command.find("--labels"), std::string::npos) << command;
  EXPECT_NE(command.find("--label-of token"), std::string::npos) << command;
  EXPECT_EQ(command.find("--per-token"), std::string::npos) << command;
}

TEST_F(LabelCommands, InspectDataShowsClasses) {
  const ToolResult result =
      RunTool({"inspect", "data", "--data", data_, "--labels", dir_ / "classes.tsv", "--task",
               "classify", "--length", "16", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("2 classes"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("w w"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("in the same shares of each class"), std::string::npos) << result.out;
  const ToolResult numbers =
      RunTool({"inspect", "data", "--data", data_, "--labels", dir_ / "numbers.tsv", "--task",
               "regress", "--length", "16", "--quiet"});
  ASSERT_EQ(numbers.status, 0) << numbers.err;
  EXPECT_NE(numbers.out.find("numbers of mean"), std::string::npos) << numbers.out;
  EXPECT_NE(numbers.out.find("mean of training: a root mean squared error of"), std::string::npos);
}

TEST_F(LabelCommands, BadInput) {
  const auto expect = [&](const std::vector<std::string>& more, const std::string& says) {
    const ToolResult result = RunTool(Words(more));
    EXPECT_NE(result.status, 0);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(run_));
  };
  expect(Of("classes.tsv", "causal"), "expected classify or regress");
  expect(Of("classes.tsv", "regress"), "expected a number");
  expect(Of("missing.tsv", "classify"), "missing.tsv");
  expect(Of("classes.tsv", "classify", {"--layout", "join"}), "labels: given with another layout");
  expect(Of("numbers.tsv", "regress", {"--class-weights", "balanced"}), "class_weights");
  expect({"--class-weights", "balanced"}, "class_weights");
  expect({"--data", data_, "--task", "classify"}, "without labels");
  Train({"--data", data_, "--length", "16"});
  ExpectError(RunTool({"predict", "--model", run_, "--data", data_}), 2, "predicts tokens");
  ExpectError(RunTool({"eval", "--model", run_, "--labels", dir_ / "classes.tsv"}), 2,
              "learned no table");
}

}  // namespace
}  // namespace favor
