// favor generate: models put to use, as a user would.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/cli/generate_fixture.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

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

}  // namespace
}  // namespace favor
