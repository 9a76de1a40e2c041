// favor generate and favor report: models put to use, as a user would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "io/png.h"
#include "models/checkpoint.h"
#include "models/network.h"
#include "tests/cli/train_fixture.h"
#include "tests/npy_file.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class GenerateCommand : public ToolFixture {
 protected:
  GenerateCommand() {
    std::string text, proteins;
    for (int i = 0; i < 600; ++i) text += "line " + std::to_string(i * 37 % 100) + " of text\n";
    for (int i = 0; i < 200; ++i) {
      proteins += ">p" + std::to_string(i) + " a protein\nMK";
      for (int j = 0; j < 10 + i % 7; ++j) proteins += "ACDEFGHIKLMNPQRSTVWY"[(i * 7 + j * j) % 20];
      proteins += "\n";
    }
    WriteText(text_, text);
    WriteText(proteins_, proteins);
  }

  ToolResult Train(const std::string& data, const std::string& out,
                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "train", "--data",       data, "--out",          out,  "--width",     "16",     "--heads",
        "2",     "--layers",     "1",  "--ff",           "24", "--features",  "16",     "--steps",
        "6",     "--batch",      "4",  "--length",       "24", "--positions", "rotary", "--warmup",
        "2",     "--eval-every", "3",  "--eval-batches", "2",  "--threads",   "1",      "--quiet"};
    for (size_t i = 0; i < more.size();
         ++i) {  // an option that is already there gets the new value
      const auto found = std::find(words.begin(), words.end(), more[i]);
      if (!more[i].starts_with("--") || found == words.end()) {
        words.push_back(more[i]);
      } else {
        found[1] = more[++i];
      }
    }
    return RunTool(words);
  }

  std::string text_ = dir_ / "book.txt", proteins_ = dir_ / "some.fasta", run_ = dir_ / "run";
};

TEST_F(GenerateCommand, GoesOnFromAPrompt) {
  ASSERT_EQ(Train(text_, run_, {"--no-report"}).status, 0);
  const std::vector<std::string> words = {"generate", "--model",   run_, "--prompt",
                                          "line 1",   "--tokens",  "30", "--seed",
                                          "3",        "--threads", "1"};
  const ToolResult first = RunTool(words), second = RunTool(words);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out.size(), 31u);  // bytes and a line end
  EXPECT_EQ(first.out, second.out);
  EXPECT_NE(first.err.find("tokens/s"), std::string::npos);
  EXPECT_NE(first.err.find("state"), std::string::npos);

  std::vector<std::string> json = words;
  json.insert(json.end(), {"--json", "--samples", "2"});
  const ToolResult several = RunTool(json);
  ASSERT_EQ(several.status, 0) << several.err;
  const Json parsed = Json::parse(several.out);
  ASSERT_EQ(parsed["samples"].size(), 2u);
  std::string bytes;  // an untrained model does not write valid UTF-8
  for (const int token : parsed["samples"][0]["tokens"]) bytes += static_cast<char>(token);
  EXPECT_EQ(bytes + "\n", first.out);
  EXPECT_NE(parsed["samples"][0]["text"], parsed["samples"][1]["text"]);
  EXPECT_EQ(parsed["prefix_tokens"], 6);
  EXPECT_GT(parsed["state_bytes"], 0);
}

TEST_F(GenerateCommand, ProteinsComeAsFasta) {
  ASSERT_EQ(Train(proteins_, run_, {"--no-report"}).status, 0);
  const ToolResult result = RunTool({"generate", "--model", run_, "--samples", "3", "--tokens",
                                     "20", "--prompt", "mk", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::istringstream lines(result.out);
  int records = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(">sample")) {
      ++records;
    } else {
      EXPECT_EQ(line.find_first_not_of("ACDEFGHIKLMNPQRSTVWYBZXUOmk"), std::string::npos) << line;
    }
  }
  EXPECT_EQ(records, 3);
  // They can be read again.
  WriteText(dir_ / "new.fasta", result.out);
  EXPECT_EQ(RunTool({"inspect", "data", "--data", dir_ / "new.fasta", "--no-baselines"}).status, 0);
}

// Samples are the same however many are drawn at a time.
TEST_F(GenerateCommand, DrawsSamplesTogether) {
  ASSERT_EQ(Train(proteins_, run_, {"--no-report"}).status, 0);
  const auto generate = [&](const std::string& batch) {
    return RunTool({"generate", "--model", run_, "--samples", "7", "--tokens", "20", "--prompt",
                    "mk", "--seed", "5", "--quiet", "--batch", batch});
  };
  const ToolResult one = generate("1");
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(std::ranges::count(one.out, '>'), 7);
  for (const char* batch : {"2", "4"}) {
    const ToolResult several = generate(batch);
    ASSERT_EQ(several.status, 0) << several.err;
    EXPECT_EQ(several.out, one.out) << batch;
  }
  EXPECT_EQ(generate("100").status, 0);
}

// A kept prefix continues as if it had never been interrupted.
TEST_F(GenerateCommand, ContextsAreKept) {
  ASSERT_EQ(Train(text_, run_, {"--no-report", "--convolution", "3"}).status, 0);
  const std::string state = dir_ / "context";
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--model", run_, "--quiet", "--temperature", "0"});
    return RunTool(more);
  };
  const ToolResult whole = generate({"--prompt", "line 12 of text\nline"});
  ASSERT_EQ(generate({"--prompt", "line 12 of", "--save-state", state}).status, 0);
  const ToolResult later = generate({"--prompt", " text\nline", "--load-state", state});
  ASSERT_EQ(later.status, 0) << later.err;
  EXPECT_EQ(later.out, whole.out);
  // Without a prompt too.
  ASSERT_EQ(generate({"--prompt", "line 12 of text\nline", "--save-state", state}).status, 0);
  EXPECT_EQ(generate({"--load-state", state}).out, whole.out);
  const Json json = Json::parse(generate({"--prompt", " 1", "--load-state", state, "--json"}).out);
  EXPECT_EQ(json["prefix_tokens"], 20 + 2);
  EXPECT_EQ(json["prompt_tokens"], 2);
}

TEST_F(GenerateCommand, RefusesInOneLine) {
  ASSERT_EQ(Train(text_, run_, {"--no-report"}).status, 0);
  ASSERT_EQ(Train(proteins_, dir_ / "proteins", {"--no-report"}).status, 0);
  ASSERT_EQ(Train(text_, dir_ / "masked", {"--no-report", "--task", "masked"}).status, 0);
  WriteText(dir_ / "junk", "junk");
  ASSERT_EQ(RunTool({"generate", "--model", run_, "--prompt", "a", "--tokens", "1", "--quiet",
                     "--save-state", dir_ / "kept"})
                .status,
            0);
  const std::vector<std::vector<std::string>> wrong = {
      {"--model", dir_ / "none", "--prompt", "a"},
      {"--model", run_},  // text has no begin token: there is nothing to continue
      {"--model", run_, "--prompt", "a", "--prompt-file", text_},
      {"--model", run_, "--prompt-file", dir_ / "none"},
      {"--model", run_, "--prompt", "a", "--temperature", "-1"},
      {"--model", run_, "--prompt", "a", "--top-p", "2"},
      {"--model", run_, "--prompt", "a", "--precision", "bf16"},    // which runs on a GPU
      {"--model", run_, "--prompt", "a", "--device", "cuda:1023"},  // there is none
      {"--model", run_, "--prompt", "a", "--load-state", dir_ / "junk"},
      {"--model", run_, "--prompt", "a", "--save-state", dir_ / "no/such/folder"},
      {"--model", dir_ / "proteins", "--prompt", "MJ"},
      {"--model", dir_ / "proteins", "--load-state", dir_ / "kept"},
      {"--model", dir_ / "masked", "--prompt", "a"},
  };
  for (std::vector<std::string> words : wrong) {
    words.insert(words.begin(), "generate");
    const ToolResult result = RunTool(words);
    EXPECT_NE(result.status, 0) << words.back();
    EXPECT_TRUE(result.err.starts_with("favor: error: ")) << words.back() << ": " << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(GenerateCommand, TokenizersTravelWithTheRun) {
  const std::string model = dir_ / "pieces.model";
  ASSERT_EQ(
      RunTool({"tokenizer", "train", "--data", text_, "--vocab", "300", "--out", model}).status, 0);
  const ToolResult trained = Train(text_, run_, {"--no-report", "--tokenizer", model});
  ASSERT_EQ(trained.status, 0) << trained.err;
  fs::remove(model);
  const ToolResult result =
      RunTool({"generate", "--model", run_, "--prompt", "line 7", "--tokens", "12", "--quiet"});
  EXPECT_EQ(result.status, 0) << result.err;
  const ToolResult eval =
      RunTool({"eval", "--model", run_, "--split", "test", "--json", "--quiet"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  const Json json = Json::parse(eval.out);
  EXPECT_EQ(json["token"], "piece");
  EXPECT_NEAR(json["word_perplexity"].get<double>(),
              std::exp(json["loss"].get<double>() * json["tokens_per_word"].get<double>()), 1e-6);
  // Another vocabulary does not fit.
  ASSERT_EQ(RunTool({"tokenizer", "train", "--data", text_, "--vocab", "280", "--out",
                     run_ + "/tokenizer.model"})
                .status,
            0);
  const ToolResult other = RunTool({"generate", "--model", run_, "--prompt", "line"});
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("vocabulary"), std::string::npos) << other.err;
}

TEST_F(GenerateCommand, RunsGetAReport) {
  ASSERT_EQ(Train(proteins_, run_).status, 0);
  const std::string page = Read(run_ + "/report.html");
  for (const char* part : {"4-gram", "perplexity", "Samples", "favor train", "Frequencies",
                           "median", "learning_rate", "<svg"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos) << "self-contained";
  // The command in it makes the same weights again.
  const size_t at = page.find("<pre>favor train") + 5;
  const std::string command = page.substr(at, page.find(" --out", at) - at);
  std::istringstream words(command);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  arguments.erase(arguments.begin());
  arguments.insert(arguments.end(), {"--out", dir_ / "again", "--no-report", "--quiet"});
  ASSERT_EQ(RunTool(arguments).status, 0) << command;
  EXPECT_EQ(Read(run_ + "/best.safetensors"), Read(dir_ / "again/best.safetensors"));
}

// Names of folders reach the program that draws plots: it must not execute them.
TEST_F(GenerateCommand, NamesOfFoldersAreNoCommands) {
  const std::string folder = dir_ / "`touch oops` 'a\"$(touch oops)";
  ASSERT_EQ(Train(proteins_, folder).status, 0);
  EXPECT_FALSE(fs::exists("oops"));
  const std::string page = Read(folder + "/report.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("favor report '"), std::string::npos) << "quoted for a shell";
}

TEST_F(GenerateCommand, NothingThatARunNeedsIsOverwritten) {
  ASSERT_EQ(Train(proteins_, run_, {"--no-report"}).status, 0);
  const std::string weights = Read(run_ + "/best.safetensors"), data = Read(proteins_);
  for (const std::string& path : {run_ + "/best.safetensors", run_ + "/last.safetensors",
                                  run_ + "/config.json", run_ + "/log.jsonl", proteins_}) {
    const ToolResult generated = RunTool({"generate", "--model", run_, "--save-state", path});
    EXPECT_EQ(generated.status, 2) << path;
    EXPECT_NE(generated.err.find("overwrite"), std::string::npos) << generated.err;
    EXPECT_EQ(RunTool({"report", run_, "--out", path}).status, 2) << path;
  }
  EXPECT_EQ(Read(run_ + "/best.safetensors"), weights);
  EXPECT_EQ(Read(proteins_), data);
  // A foreign page is not overwritten either.
  fs::create_directory(dir_ / "other");
  WriteText(dir_ / "other/report.html", "mine");
  EXPECT_EQ(Train(proteins_, dir_ / "other").status, 2);
  EXPECT_EQ(Read(dir_ / "other/report.html"), "mine");
}

TEST_F(GenerateCommand, DataThatChangedAreNoticed) {
  ASSERT_EQ(Train(text_, run_, {"--no-report"}).status, 0);
  EXPECT_EQ(RunTool({"eval", "--model", run_, "--quiet"}).err, "");
  WriteText(text_, Read(text_) + "and more of it\n");
  const ToolResult eval = RunTool({"eval", "--model", run_, "--quiet"});
  EXPECT_EQ(eval.status, 0);
  EXPECT_NE(eval.err.find("has changed"), std::string::npos) << eval.err;
  ASSERT_EQ(RunTool({"report", run_, "--quiet"}).status, 0);
  EXPECT_NE(Read(run_ + "/report.html").find("Beware"), std::string::npos);
  // A held-out list is part of the data.
  WriteText(dir_ / "names", "p3\n");
  ASSERT_EQ(Train(proteins_, dir_ / "held", {"--no-report", "--held-out", dir_ / "names"}).status,
            0);
  // The run keeps a copy.
  WriteText(dir_ / "names", "p3\np4\n");
  EXPECT_EQ(RunTool({"train", "--out", dir_ / "held", "--resume", "--quiet"}).status, 0);
  EXPECT_EQ(Read(dir_ / "held/held_out.txt"), "p3\n");
}

// Samples end where learned positions or pictures end.
TEST_F(GenerateCommand, SamplesEndWhereTheModelEnds) {
  ASSERT_EQ(Train(text_, run_, {"--no-report", "--positions", "learned"}).status, 0);
  const ToolResult result = RunTool({"generate", "--model", run_, "--prompt", "abcd", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.size(),
            22u);  // 24 positions hold 4 + 20 tokens; one more is drawn, and a line end follows
  const ToolResult wrong = RunTool({"generate", "--model", run_, "--prompt", "a", "--top-p", "0",
                                    "--save-state", dir_ / "state"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.out, "");
  EXPECT_FALSE(fs::exists(dir_ / "state"));
}

TEST_F(GenerateCommand, PromptsComeFromStandardInput) {
  ASSERT_EQ(Train(text_, run_, {"--no-report"}).status, 0);
  ASSERT_EQ(Train(proteins_, dir_ / "proteins", {"--no-report"}).status, 0);
  WriteText(dir_ / "prompt", "line 12");
  WriteText(dir_ / "letters", "MKT\n");
  const auto generate = [&](const std::string& input, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", "--quiet", "--tokens", "12"};
    words.insert(words.end(), more.begin(), more.end());
    return RunToolUnder({"/bin/sh", "-c", "cat '" + input + "' | \"$0\" \"$@\""}, words);
  };
  const ToolResult piped = generate(dir_ / "prompt", {"--model", run_, "--prompt-file", "-"});
  ASSERT_EQ(piped.status, 0) << piped.err;
  EXPECT_EQ(piped.out,
            generate("/dev/null", {"--model", run_, "--prompt-file", dir_ / "prompt"}).out);
  // The line end that `echo` writes is not a letter.
  EXPECT_EQ(generate(dir_ / "letters", {"--model", dir_ / "proteins", "--prompt-file", "-"}).out,
            generate("/dev/null", {"--model", dir_ / "proteins", "--prompt", "MKT"}).out);
  const auto refused = [](const ToolResult& result, const std::string& says) {
    EXPECT_NE(result.status, 0);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  };
  refused(generate("/dev/null", {"--model", run_, "--prompt-file", "-"}), "given nothing");
  refused(generate(dir_ / "prompt", {"--model", dir_ / "proteins", "--prompt-file", "-"}),
          "standard input: ");
  refused(generate(dir_ / "prompt", {"--model", run_, "--prompt", "a", "--prompt-file", "-"}),
          "expected one");
}

TEST_F(GenerateCommand, PixelsBecomePictures) {
  std::string pixels;
  for (int i = 0; i < 200 * 30; ++i) pixels += static_cast<char>(i * i / 7);
  WriteText(dir_ / "rgb.npy", NpyFile("|u1", "(200, 5, 2, 3)", pixels));
  WriteText(dir_ / "grey.npy", NpyFile("|u1", "(200, 5, 6)", pixels));
  for (const std::string name : {"rgb", "grey"}) {
    // A length of 0 stands for that of the data.
    ASSERT_EQ(Train(dir_ / (name + ".npy"), dir_ / name, {"--no-report", "--length", "0"}).status,
              0);
  }
  const auto generate = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--model", dir_ / model, "--threads", "1", "--quiet"});
    return RunTool(more);
  };
  // One sample: the file itself, and the same values as in text.
  const std::string png = dir_ / "a.png";
  const ToolResult one = generate("rgb", {"--seed", "3", "--png", png});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out, png + ": 5 × 2 × 3\n");
  EXPECT_EQ(one.err, "");
  const io::Picture picture = io::ReadPng(png);
  EXPECT_EQ(picture.height, 5);
  EXPECT_EQ(picture.width, 2);
  EXPECT_EQ(picture.channels, 3);
  const Json values = Json::parse(generate("rgb", {"--seed", "3", "--json"}).out);
  EXPECT_EQ(values["samples"][0]["tokens"].get<std::vector<int>>(),
            std::vector<int>(picture.pixels.begin(), picture.pixels.end()));
  // Several samples, all of which begin with the prompt.
  const ToolResult several = generate(
      "grey", {"--samples", "3", "--prompt", "1 2 3", "--json", "--png", dir_ / "b.c.png"});
  ASSERT_EQ(several.status, 0) << several.err;
  const Json json = Json::parse(several.out);
  for (int i = 0; i < 3; ++i) {
    const std::string path = dir_ / ("b.c-" + std::to_string(i + 1) + ".png");
    const Json& sample = json["samples"][static_cast<size_t>(i)];
    EXPECT_EQ(sample["png"], path);
    const io::Picture own = io::ReadPng(path);
    EXPECT_EQ(own.channels, 1);
    std::vector<int> expected = {1, 2, 3};
    for (const int token : sample["tokens"]) expected.push_back(token);
    EXPECT_EQ(std::vector<int>(own.pixels.begin(), own.pixels.end()), expected);
  }
  EXPECT_FALSE(fs::exists(dir_ / "b.c.png"));
  // More tokens than a picture has do not make it larger.
  EXPECT_EQ(generate("rgb", {"--seed", "3", "--png", png, "--tokens", "30"}).out, one.out);
  EXPECT_EQ(generate("rgb", {"--seed", "3", "--png", png, "--tokens", "99"}).out, one.out);
  EXPECT_EQ(io::ReadPng(png).pixels, picture.pixels);
}

TEST_F(GenerateCommand, RefusesPicturesThatAreNone) {
  std::string pixels;
  for (int i = 0; i < 200 * 12; ++i) pixels += static_cast<char>(i * i / 7);
  WriteText(dir_ / "grey.npy", NpyFile("|u1", "(200, 3, 4)", pixels));
  ASSERT_EQ(Train(dir_ / "grey.npy", run_, {"--no-report", "--length", "0"}).status, 0);
  ASSERT_EQ(Train(text_, dir_ / "text", {"--no-report"}).status, 0);
  const auto refused = [&](const std::string& model, std::vector<std::string> more, int status,
                           const std::string& says) {
    more.insert(more.begin(), {"generate", "--model", model});
    ExpectError(RunTool(more), status, says);
  };
  const std::string out = dir_ / "out.png";
  refused(dir_ / "text", {"--prompt", "a", "--png", out}, 2,
          "generate: --png: given a model of bytes, expected a model of pixels");
  refused(run_, {"--png", out, "--tokens", "11"}, 2,
          "generate: --tokens: given 11, expected at least 12 (or none) for a whole picture of 3 × "
          "4 × 1");
  refused(run_, {"--png", out, "--prompt", "1 2 3 4 5 6 7 8 9 10 11 12 13"}, 2,
          "--prompt: given 13 values, expected at most 12");
  refused(run_, {"--png", dir_ / "no/out.png"}, 1, "cannot be written");
  refused(run_, {"--png", run_ + "/best.safetensors"}, 2, "would overwrite an input");
  refused(run_, {"--png", out, "--save-state", out}, 2, "two outputs go to the same file");
  ASSERT_EQ(RunTool({"generate", "--model", run_, "--save-state", dir_ / "kept"}).status, 0);
  refused(run_, {"--png", out, "--load-state", dir_ / "kept"}, 2,
          "given --png and --load-state, expected one");
  // Checkpoints without a size, as older versions wrote them, and with one that does not fit.
  const auto with_shape = [&](const Json& shape) {
    const models::Checkpoint best(run_ + "/best.safetensors");
    models::CheckpointInfo info = best.info();
    Json state = Json::parse(info.state);
    EXPECT_EQ(state["shape"], "3 × 4 × 1");
    state["shape"] = shape;
    if (shape.is_null()) state.erase("shape");
    info.state = state.dump();
    models::WriteCheckpoint(dir_ / "other.safetensors", *best.MakeNetwork(), info);
    return dir_ / "other.safetensors";
  };
  refused(with_shape(nullptr), {"--png", out}, 1, "does not hold the size of its pictures");
  refused(with_shape(7), {"--png", out}, 1, "does not hold the size of its pictures");
  for (const char* shape :
       {"3 × 4", "3 × 4 × 2", "3 × 4 × 3", "4 × 4 × 1", "-3 × -4 × 1", "0 × 0 × 1", "3 × 4 × 1 × 1",
        "3 x 4 x 1", "3 × 4 × 1 ", "9999999999999999999 × 4 × 1"})
    refused(with_shape(shape), {"--png", out}, 1, "damaged checkpoint: given pictures of '");
}

TEST_F(GenerateCommand, ReportsCompare) {
  ASSERT_EQ(Train(proteins_, run_, {"--no-report"}).status, 0);
  ASSERT_EQ(Train(proteins_, dir_ / "exact", {"--no-report", "--attention", "exact"}).status, 0);
  const std::string page = dir_ / "both.html";
  const ToolResult result = RunTool(
      {"report", run_, dir_ / "exact", "--out", page, "--lengths", "32,64", "--json", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_GT(json["runs"][1]["microseconds_per_token"]["64"], 0);
  EXPECT_EQ(json["runs"][0]["score"]["targets"], json["baselines"]["empirical"]["targets"]);
  // The same figures as favor eval.
  const Json eval =
      Json::parse(RunTool({"eval", "--model", run_, "--split", "test", "--json", "--quiet"}).out);
  EXPECT_EQ(eval["tokens"], json["runs"][0]["score"]["targets"]);
  EXPECT_NEAR(eval["loss"].get<double>(), json["runs"][0]["score"]["loss"].get<double>(), 1e-9);
  const std::string html = Read(page);
  // Every run has a row with its own figures.
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = json["runs"][i]["folder"], attention = json["runs"][i]["attention"];
    const std::string row = fmt::format("<td>{}: {}</td><td class=\"n\">{:.4f}</td><td",
                                        fs::path(name).filename().string(), attention,
                                        json["runs"][i]["score"]["loss"].get<double>());
    EXPECT_NE(html.find(row), std::string::npos) << row;
  }
  EXPECT_NE(json["runs"][0]["score"]["loss"], json["runs"][1]["score"]["loss"]);
  // The commands to repeat it: both runs, then the page.
  const size_t at = html.find("<pre>favor train");
  ASSERT_NE(at, std::string::npos);
  std::istringstream lines(html.substr(at + 5, html.find("</pre>", at) - at - 5));
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_TRUE(first.ends_with(" --out " + run_)) << first;
  EXPECT_NE(second.find(" --attention exact "), std::string::npos) << second;
  EXPECT_EQ(third,
            "favor report " + run_ + " " + (dir_ / "exact") + " --lengths 32,64 --out " + page);

  EXPECT_EQ(RunTool({"report"}).status, 2);
  const ToolResult none = RunTool({"report", dir_ / "none"});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("holds no run"), std::string::npos) << none.err;
  EXPECT_EQ(RunTool({"report", run_, "--out", dir_ / "no/such/place.html"}).status, 1);
}

}  // namespace
}  // namespace favor
