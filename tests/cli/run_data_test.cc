// Runs and their data: data that moves, changes or belongs to another run, and what its layout
// implies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "favor/favor.h"
#include "favor/random.h"
#include "tests/cli/train_fixture.h"
#include "tests/npy_file.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string Letters(std::string_view letters, uint64_t number, size_t count) {
  const RandomStream stream = RandomStream(7, "letters").Child(number);
  std::string text;
  for (size_t i = 0; i < count; ++i) text += letters[stream.Bits(i) % letters.size()];
  return text;
}

class RunData : public TrainFixture {
 protected:
  static std::string Fasta(std::string_view letters, uint64_t records, size_t length) {
    std::string text;
    for (uint64_t i = 0; i < records; ++i)
      text += ">r" + std::to_string(i) + "\n" + Letters(letters, i, length) + "\n";
    return text;
  }
  // Runs the tool in the folder `from`.
  static ToolResult RunFrom(const std::string& from, const std::vector<std::string>& words) {
    return RunToolUnder({"env", "-C", from}, words);
  }
  Json Eval(std::vector<std::string> more) const {
    more.insert(more.begin(), {"eval", "--model", run_, "--json", "--quiet"});
    const ToolResult result = RunTool(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
};

constexpr std::string_view kAminoAcids = "ACDEFGHIKLMNPQRSTVWY";

// A run started with a relative path is used from anywhere, and resumed with the data elsewhere.
TEST_F(RunData, IsFoundAgain) {
  fs::create_directories(dir_ / "work/data");
  WriteText(dir_ / "work/data/p.fasta", Fasta(kAminoAcids, 100, 20));
  std::vector<std::string> words =
      Words({"--data", "data/p.fasta", "--out", "run", "--length", "16"});
  ASSERT_EQ(RunFrom(dir_ / "work", words).status, 0);
  run_ = dir_ / "work/run";
  // From another folder, the data is found by the path from the run to the data.
  const Json here = Eval({});
  EXPECT_EQ(here["own_data"], true);
  // Run and data moved together.
  fs::rename(dir_ / "work", dir_ / "moved");
  run_ = dir_ / "moved/run";
  EXPECT_EQ(Eval({})["loss"], here["loss"]);
  EXPECT_EQ(RunTool({"report", run_, "--quiet", "--samples", "0"}).status, 0);
  // Only the data moved: an error of one line, and --data finds it.
  fs::rename(dir_ / "moved/data/p.fasta", dir_ / "other.fasta");
  ExpectError(RunTool({"eval", "--model", run_}), 1, "expected the run's data (--data)");
  EXPECT_EQ(Eval({"--data", dir_ / "other.fasta"})["loss"], here["loss"]);
  EXPECT_EQ(Eval({"--data", dir_ / "other.fasta"})["split"], "valid");
  EXPECT_EQ(RunTool({"report", run_, "--data", dir_ / "other.fasta", "--quiet"}).status, 0);
}

// Records held out by name stay held out when the data is elsewhere.
TEST_F(RunData, KeepsItsListUnderAnotherPath) {
  WriteText(dir_ / "p.fasta", Fasta(kAminoAcids, 100, 20));
  WriteText(dir_ / "names", "r3\nr50\n");
  Train({"--data", dir_ / "p.fasta", "--length", "32", "--held-out", dir_ / "names"});
  const Json here = Eval({"--split", "held-out"});
  EXPECT_EQ(here["tokens"], 2 * 21);  // 20 letters and the end of two records
  fs::rename(dir_ / "p.fasta", dir_ / "q.fasta");
  fs::remove(dir_ / "names");
  const Json there = Eval({"--split", "held-out", "--data", dir_ / "q.fasta"});
  EXPECT_EQ(there["tokens"], here["tokens"]);
  EXPECT_EQ(there["loss"], here["loss"]);
  EXPECT_EQ(there["own_data"], true);
}

TEST_F(RunData, IsResumedUnderAnotherPath) {
  WriteText(dir_ / "p.fasta", Fasta(kAminoAcids, 100, 20));
  const std::vector<std::string> data = {"--data", dir_ / "p.fasta", "--length", "16"};
  Train(data);
  fs::rename(dir_ / "p.fasta", dir_ / "q.fasta");
  const ToolResult lost = RunTool({"train", "--resume", "--out", run_, "--quiet", "--no-report"});
  ExpectError(lost, 1, "p.fasta");
  const ToolResult resumed = RunTool(
      {"train", "--resume", "--out", run_, "--data", dir_ / "q.fasta", "--quiet", "--no-report"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  WriteText(dir_ / "q.fasta", Fasta(kAminoAcids, 101, 20));
  ExpectError(RunTool({"train", "--resume", "--out", run_, "--data", dir_ / "q.fasta"}), 1,
              "has changed since the run began");
}

// Data of another kind is refused; other data of the same kind is evaluated as a whole and named.
TEST_F(RunData, OfAnotherKindIsRefused) {
  WriteText(dir_ / "p.fasta", Fasta(kAminoAcids, 100, 20));
  Train({"--data", dir_ / "p.fasta", "--length", "16", "--positions", "rotary"});
  WriteText(dir_ / "d.fasta", Fasta("ACGT", 100, 20));
  ExpectError(RunTool({"eval", "--model", run_, "--data", dir_ / "d.fasta"}), 1, "alphabet dna");
  WriteText(dir_ / "few.fasta", Fasta(kAminoAcids, 3, 30));
  const Json other = Eval({"--data", dir_ / "few.fasta"});
  EXPECT_EQ(other["split"], "all");
  EXPECT_EQ(other["own_data"], false);
  EXPECT_EQ(other["tokens"], 3 * 16);  // clipped at 16
  EXPECT_EQ(Eval({"--data", dir_ / "few.fasta", "--length", "40"})["tokens"], 3 * 31);
  EXPECT_EQ(Eval({"--split", "all", "--length", "40"})["tokens"], 100 * 21);
  const ToolResult text =
      RunTool({"eval", "--model", run_, "--data", dir_ / "few.fasta", "--quiet"});
  EXPECT_NE(text.out.find("all of "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("not the data of the run"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("best.safetensors, step "), std::string::npos) << text.out;
}

TEST_F(RunData, OfOtherPicturesIsRefused) {
  std::string pixels;
  for (int i = 0; i < 200 * 12; ++i) pixels += static_cast<char>(i * i / 7);
  WriteText(dir_ / "grey.npy", NpyFile("|u1", "(200, 4, 3)", pixels));
  WriteText(dir_ / "rgb.npy", NpyFile("|u1", "(200, 2, 2, 3)", pixels));
  Train({"--data", dir_ / "grey.npy", "--steps", "2"});
  ExpectError(RunTool({"eval", "--model", run_, "--data", dir_ / "rgb.npy"}), 1,
              "holds pictures of 2 × 2 × 3 (height, width, channels), but the model was trained on "
              "4 × 3 × 1");
}

// Joined records begin after an end token; letters that were never targets are not drawn.
TEST_F(RunData, JoinedRecordsBeginBehindAnEnd) {
  WriteText(dir_ / "d.fasta", Fasta("ACGT", 300, 40));
  Train({"--data", dir_ / "d.fasta", "--alphabet", "dna", "--layout", "join", "--length", "32"});
  const ToolResult result = RunTool({"generate", "--model", run_, "--samples", "20", "--tokens",
                                     "100", "--quiet", "--temperature", "3"});
  ASSERT_EQ(result.status, 0) << result.err;
  std::set<char> letters(result.out.begin(), result.out.end());
  for (const char c : std::string("NRYSWKMBDHV")) EXPECT_FALSE(letters.contains(c)) << c;
  // The model first reads the end token, 16 of 19, and gives the likeliest token after it.
  const ToolResult greedy = RunTool(
      {"generate", "--model", run_, "--tokens", "1", "--temperature", "0", "--json", "--quiet"});
  ASSERT_EQ(greedy.status, 0) << greedy.err;
  const Json json = Json::parse(greedy.out);
  EXPECT_EQ(json["prompt_tokens"], 1);
  const TrainedModel trained = LoadTrained(run_);
  ASSERT_EQ(trained.start, 16);
  const Context context({.threads = 1});
  const Tensor logits = trained.model.Logits({.batch = 1, .length = 1, .tokens = {16}}, context);
  std::vector<float> known(logits.Data<float>(), logits.Data<float>() + 19);
  for (const int32_t unseen : trained.unseen) known[static_cast<size_t>(unseen)] = -1e9f;
  const auto best = std::max_element(known.begin(), known.end()) - known.begin();
  if (best == 16) {
    EXPECT_EQ(json["samples"][0]["ended"], true);
  } else {
    EXPECT_EQ(json["samples"][0]["tokens"][0], best);
  }
  EXPECT_EQ(trained.unseen.front(), 4);  // N
}

// Training on one genome shows no beginning: a prompt is needed, and reports make their own.
TEST_F(RunData, OneGenomeNeedsAPrompt) {
  WriteText(dir_ / "g.fna", ">g\n" + Letters("ACGT", 1, 30000) + "\n");
  const Json result =
      Train({"--data", dir_ / "g.fna", "--alphabet", "dna", "--layout", "join", "--length", "32"});
  EXPECT_EQ(Json::parse(ReadText(run_ + "/config.json"))["format"]["split_by"], "place");
  ExpectError(RunTool({"generate", "--model", run_}), 2, "expected some text");
  const ToolResult prompted =
      RunTool({"generate", "--model", run_, "--prompt", "ACGT", "--tokens", "50", "--quiet"});
  ASSERT_EQ(prompted.status, 0) << prompted.err;
  EXPECT_EQ(prompted.out.find_first_not_of(">sample1\nACGT"), std::string::npos) << prompted.out;
  ASSERT_EQ(RunTool({"report", run_, "--quiet", "--samples", "4"}).status, 0);
  const std::string page = ReadText(run_ + "/report.html");
  EXPECT_NE(page.find("continuing the beginning of held-out sequences"), std::string::npos);
  // Each sample continues another sequence: "[…]" at the beginning of a line.
  std::set<std::string> prompts;
  std::istringstream lines(page.substr(page.find("<pre>[") + 5));
  for (std::string line; std::getline(lines, line) && line.find("</pre>") == std::string::npos;) {
    if (line.starts_with('[')) prompts.insert(line.substr(0, line.find(']')));
  }
  EXPECT_EQ(prompts.size(), 4u);
  EXPECT_NE(page.find("Divided by place"), std::string::npos);
  EXPECT_NE(page.find("8-gram"), std::string::npos);
}

// Masked models: figures by masking are reported, and the baseline looks at what is shown.
TEST_F(RunData, MaskedFiguresComeApart) {
  WriteText(dir_ / "p.fasta", Fasta(kAminoAcids, 200, 20));
  Train({"--data", dir_ / "p.fasta", "--length", "16", "--task", "masked", "--eval-batches", "0"});
  const Json json = Eval({});
  int64_t sum = 0;
  double loss = 0;
  for (const char* kind : {"hidden", "replaced", "kept"}) {
    sum += json["by_masking"][kind]["tokens"].get<int64_t>();
    loss += json["by_masking"][kind]["loss"].get<double>() *
            json["by_masking"][kind]["tokens"].get<double>();
  }
  EXPECT_EQ(sum, json["tokens"]);
  EXPECT_NEAR(loss / static_cast<double>(sum), json["loss"].get<double>(), 1e-9);
  const ToolResult report = RunTool({"report", run_, "--quiet", "--json"});
  ASSERT_EQ(report.status, 0) << report.err;
  const std::string page = ReadText(run_ + "/report.html");
  // Uniform guesses have the same loss for all tokens and for those of each masking: twice the same
  // beginning of a row.
  const std::string uniform =
      fmt::format("<td>uniform</td><td class=\"n\">{:.4f}</td>",
                  Json::parse(report.out)["baselines"]["uniform"]["loss"].get<double>());
  EXPECT_NE(page.find(uniform), std::string::npos);
  EXPECT_NE(page.find(uniform), page.rfind(uniform)) << uniform;
  EXPECT_NE(page.find("shown token"), std::string::npos);
  EXPECT_NE(page.find("hidden, nats"), std::string::npos);
}

// Words of the split that is evaluated, not of another: 3 bytes per word in train, 6 in test.
TEST_F(RunData, WordPerplexityIsOfTheSplit) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += "ab\n";
  for (int i = 0; i < 60; ++i) text += "abcde\n";
  WriteText(dir_ / "text", text);
  Train(
      {"--data", dir_ / "text", "--length", "20", "--valid-share", "0.05", "--test-share", "0.1"});
  const Json test = Eval({"--split", "test"}), train = Eval({"--split", "train"});
  EXPECT_NEAR(test["tokens_per_word"].get<double>(), 6, 0.3);
  EXPECT_NEAR(train["tokens_per_word"].get<double>(), 3, 0.1);
  for (const Json& json : {test, train}) {
    EXPECT_NEAR(json["word_perplexity"].get<double>(),
                std::exp(json["loss"].get<double>() * json["tokens_per_word"].get<double>()),
                1e-6 * json["word_perplexity"].get<double>());
  }
  const ToolResult result = RunTool({"report", run_, "--quiet", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["runs"][0]["word_perplexity"], test["word_perplexity"]);
  EXPECT_EQ(Json::parse(result.out)["runs"][0]["bits_per_character"], test["bits_per_character"]);
}

// Two tokenizers on one text are compared on the same characters, in a separate table; their losses
// are in separate plots.
TEST_F(RunData, TokenizersAreComparedOnTheSameCharacters) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word" + std::to_string(i * 37 % 100) + " and more\n";
  WriteText(dir_ / "text", text);
  ASSERT_EQ(RunTool({"tokenizer", "train", "--data", dir_ / "text", "--vocab", "300", "--out",
                     dir_ / "m.model"})
                .status,
            0);
  const std::string bytes = run_, pieces = dir_ / "pieces";
  Train({"--data", dir_ / "text", "--length", "16"});
  Train({"--data", dir_ / "text", "--length", "16", "--tokenizer", dir_ / "m.model", "--out",
         pieces});
  const ToolResult result = RunTool(
      {"report", bytes, pieces, "--quiet", "--out", dir_ / "both.html", "--evaluate", "100"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string page = ReadText(dir_ / "both.html");
  EXPECT_NE(page.find("On the same characters"), std::string::npos);
  EXPECT_NE(page.find("nats per byte"), std::string::npos);
  EXPECT_NE(page.find("nats per piece"), std::string::npos);
}

// Generated targets depend on the seed: runs with another one are not compared, and each has
// baselines of its own.
TEST_F(RunData, OfATaskWithAnotherSeedIsOtherData) {
  const std::string first = run_, second = dir_ / "second", third = dir_ / "third";
  Train();
  Train({"--out", second, "--attention", "exact"});
  Train({"--out", third, "--seed", "2"});
  const auto report = [&](const std::string& other) {
    return RunTool({"report", first, other, "--out", dir_ / "both.html", "--quiet", "--json"});
  };
  const ToolResult same = report(second), different = report(third);
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_TRUE(Json::parse(same.out).contains("baselines"));
  ASSERT_EQ(different.status, 0) << different.err;
  EXPECT_NE(different.err.find("figures per token cannot be compared"), std::string::npos);
  const Json json = Json::parse(different.out);
  EXPECT_FALSE(json.contains("baselines"));
  for (const Json& run : json["runs"]) EXPECT_TRUE(run.contains("baselines"));
}

// If records are clipped, the tool says how much is lost.
TEST_F(RunData, ClippedRecordsAreNamed) {
  WriteText(dir_ / "p.fasta", Fasta(kAminoAcids, 100, 64));
  std::vector<std::string> words = Words({"--data", dir_ / "p.fasta", "--length", "16"});
  std::erase(words, "--quiet");
  const ToolResult result = RunTool(words);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("leaves out 75.0 % of the train split"), std::string::npos)
      << result.err;
  const ToolResult shown =
      RunTool({"inspect", "data", "--data", dir_ / "p.fasta", "--length", "16", "--no-baselines"});
  EXPECT_NE(shown.out.find("leave out 75.0 %"), std::string::npos) << shown.out;
  const ToolResult cropped = RunTool({"inspect", "data", "--data", dir_ / "p.fasta", "--length",
                                      "16", "--no-baselines", "--layout", "crop"});
  EXPECT_EQ(cropped.out.find("leave out"), std::string::npos) << cropped.out;
}

// Data and text from standard input.
TEST_F(RunData, ComesFromStandardInput) {
  WriteText(dir_ / "p.fasta", Fasta(kAminoAcids, 100, 20));
  const ToolResult piped = RunToolUnder(
      {"sh", "-c", "exec \"$0\" \"$@\" < " + (dir_ / "p.fasta")},
      {"inspect", "data", "--data", "-", "--kind", "fasta", "--no-baselines", "--json"});
  ASSERT_EQ(piped.status, 0) << piped.err;
  const ToolResult file =
      RunTool({"inspect", "data", "--data", dir_ / "p.fasta", "--no-baselines", "--json"});
  EXPECT_EQ(Json::parse(piped.out)["splits"], Json::parse(file.out)["splits"]);
}

// A file of Model::Save says nothing about tokens.
TEST_F(RunData, AModelAloneIsNotARun) {
  ModelConfig config;
  config.vocab = 29;
  config.max_length = 16;
  Model(config, 1).Save(dir_ / "m.safetensors");
  ExpectError(RunTool({"generate", "--model", dir_ / "m.safetensors"}), 1,
              "holds only a model, not what its tokens stand for");
}

// Runs keep the clusters, find files of splits next to the data, and know their data by a hint.
TEST_F(RunData, DividedByClustersOrFiles) {
  fs::create_directories(dir_ / "work");
  const std::string fasta = Fasta(kAminoAcids, 120, 20);
  WriteText(dir_ / "work/p.fasta", fasta);
  WriteText(dir_ / "work/v.fasta", ">v\n" + Letters(kAminoAcids, 500, 20) + "\n");
  std::string clusters;
  for (int i = 0; i < 120; ++i) clusters += fmt::format("r{}\tr{}\n", i / 3, i);
  WriteText(dir_ / "work/c.tsv", clusters);
  const auto train = [&](const std::string& out, const std::string& option,
                         const std::string& file) {
    run_ = dir_ / "work/" + out;
    const ToolResult result = RunFrom(
        dir_ / "work", Words({"--data", "p.fasta", option, file, "--length", "16", "--out", out}));
    EXPECT_EQ(result.status, 0) << result.err;
  };
  train("by-clusters", "--clusters", "c.tsv");
  const double loss = Eval({"--split", "valid"})["loss"].get<double>();
  EXPECT_EQ(ReadText(run_ + "/clusters.txt"), clusters);
  EXPECT_EQ(Json::parse(ReadText(run_ + "/config.json"))["format"]["split_by"], "clusters");
  fs::remove(dir_ / "work/c.tsv");
  fs::rename(dir_ / "work/p.fasta", dir_ / "moved.fasta");
  const Json moved = Eval({"--split", "valid", "--data", dir_ / "moved.fasta"});
  EXPECT_EQ(moved["loss"].get<double>(), loss);
  EXPECT_TRUE(moved["own_data"].get<bool>());
  // Other data has other names: it is evaluated as a whole.
  WriteText(dir_ / "other.fasta", ">x\n" + Letters(kAminoAcids, 9, 20) + "\n");
  EXPECT_FALSE(Eval({"--data", dir_ / "other.fasta"})["own_data"].get<bool>());

  fs::rename(dir_ / "moved.fasta", dir_ / "work/p.fasta");
  train("by-files", "--valid-data", "v.fasta");
  const Json valid = Eval({"--split", "valid"});
  EXPECT_EQ(valid["tokens"].get<int>(), 16);  // one record, clipped
  const ToolResult again =
      RunFrom(dir_ / "work", {"train", "--out", "by-files", "--resume", "--quiet", "--no-report"});
  EXPECT_EQ(again.status, 0) << again.err;
  // What starts from it with the same data is divided in the same way, with other data anew.
  const ToolResult longer = RunFrom(
      dir_ / "work",
      {"train", "--init", "by-files", "--out", "longer", "--steps", "1", "--quiet", "--no-report"});
  EXPECT_EQ(longer.status, 0) << longer.err;
  EXPECT_EQ(Json::parse(ReadText(dir_ / "work/longer/config.json"))["format"]["valid_data"],
            "v.fasta");
  WriteText(dir_ / "work/q.fasta", Fasta("ACDEFGHIKL", 120, 20));
  const ToolResult tuned =
      RunFrom(dir_ / "work", {"train", "--init", "by-files", "--data", "q.fasta", "--out", "tuned",
                              "--steps", "1", "--quiet", "--no-report"});
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_FALSE(
      Json::parse(ReadText(dir_ / "work/tuned/config.json"))["format"].contains("valid_data"));
}

}  // namespace
}  // namespace favor
