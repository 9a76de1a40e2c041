#include <gtest/gtest.h>
#include <array>

#include <nlohmann/json.hpp>

#include "tests/cli/tool_fixture.h"

namespace favor {
namespace {

class TokenizerCommand : public ToolFixture {
 protected:
  TokenizerCommand() {
    for (int i = 0; i < 300; ++i) text_ += "the cat sat on mat " + std::to_string(i) + "\n";
    text_ += "▁ naïve\t猫";
    WriteText(dir_ / "text", text_);
  }
  ToolResult Train(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"tokenizer",   "train", "--data",
                                      dir_ / "text", "--out", dir_ / name};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }
  ToolResult Encode(std::vector<std::string> more) const {
    more.insert(more.begin(), {"tokenizer", "encode", "--model", dir_ / "m"});
    return RunTool(more);
  }
  ToolResult Decode(std::vector<std::string> more) const {
    more.insert(more.begin(), {"tokenizer", "decode", "--model", dir_ / "m"});
    return RunTool(more);
  }

  std::string text_;
};

// Words that share their parts: fewer tokens than bytes.
TEST_F(TokenizerCommand, SaysHowLongItsTokensAre) {
  std::string text;
  for (const char* stem : {"walk", "talk", "jump", "look", "play", "paint", "call", "cook"}) {
    for (const char* end : {"ing", "ed", "er", "ers"}) text += std::string(stem) + end + " the\n";
  }
  WriteText(dir_ / "text", text);
  const auto summary = nlohmann::json::parse(Train("m", {"--vocab", "320", "--json"}).out);
  EXPECT_EQ(summary["bytes"], text.size());
  EXPECT_LT(summary["tokens"], text.size());
  EXPECT_DOUBLE_EQ(summary["bytes_per_token"].get<double>(),
                   static_cast<double>(text.size()) / summary["tokens"].get<double>());
  EXPECT_DOUBLE_EQ(summary["tokens_per_word"].get<double>(), summary["tokens"].get<double>() / 64);
}

TEST_F(TokenizerCommand, GivesATextBack) {
  const ToolResult train = Train("m", {"--vocab", "320", "--json"});
  ASSERT_EQ(train.status, 0) << train.err;
  const auto summary = nlohmann::json::parse(train.out);
  EXPECT_GT(summary["pieces"], 270);
  EXPECT_EQ(summary["bytes"], text_.size());
  EXPECT_EQ(summary["words"], 300 * 6 + 3);
  EXPECT_DOUBLE_EQ(
      summary["bytes_per_token"].get<double>() * summary["tokens_per_word"].get<double>(),
      static_cast<double>(text_.size()) / (300 * 6 + 3));
  const ToolResult ids = Encode({"--data", dir_ / "text"});
  ASSERT_EQ(ids.status, 0) << ids.err;
  WriteText(dir_ / "ids", ids.out);
  EXPECT_EQ(Decode({"--data", dir_ / "ids"}).out, text_);
  const ToolResult few = Encode({"--text", " the cat▁\n"});
  EXPECT_EQ(Decode({"--ids", few.out}).out, " the cat▁\n");
  EXPECT_EQ(Encode({"--text", ""}).out, "\n");
  EXPECT_EQ(Decode({"--ids", ""}).out, "");
  const ToolResult plain = Train("m", {"--vocab", "320"});
  EXPECT_NE(plain.out.find(" tokens per word, "), std::string::npos);
  EXPECT_EQ(Encode({"--data", dir_ / "text"}).out, ids.out);
}

TEST_F(TokenizerCommand, SaysIfTheTextHasFewerPieces) {
  constexpr std::array<std::string_view, 6> kSyllables = {"ka", "tor", "mi", "res", "un", "pen"};
  std::string text;  // made of sixty different words
  for (int i = 0; i < 3000; ++i) {
    const int word = i * i % 61 + i % 7;
    for (int j = 0; j <= word % 3; ++j)
      text += kSyllables[static_cast<size_t>(word / (j + 2)) % kSyllables.size()];
    text += i % 8 == 7 ? "\n" : " ";
  }
  WriteText(dir_ / "text", text);
  const ToolResult few = Train("m", {"--vocab", "5000", "--json"});
  ASSERT_EQ(few.status, 0) << few.err;
  const std::string pieces = nlohmann::json::parse(few.out)["pieces"].dump();
  EXPECT_LT(std::stoi(pieces), 5000);
  EXPECT_EQ(few.err,
            "favor: warning: tokenizer: requested 5000 pieces, the text gives " + pieces + "\n");
  const ToolResult enough = Train("m", {"--vocab", "290", "--json"});
  ASSERT_EQ(enough.status, 0) << enough.err;
  EXPECT_EQ(nlohmann::json::parse(enough.out)["pieces"], 290);
  EXPECT_EQ(enough.err, "");
}

TEST_F(TokenizerCommand, ShowsAnExampleOfEachPart) {
  for (const char* part : {"train", "encode", "decode"}) {
    EXPECT_NE(RunTool({"help", "tokenizer", part}).out.find("favor tokenizer " + std::string(part)),
              std::string::npos);
  }
}

TEST_F(TokenizerCommand, RefusesWrongUsage) {
  ExpectError(RunTool({"tokenizer"}), 2, "tokenizer");
  ExpectError(RunTool({"tokenizer", "train", "--out", dir_ / "out"}), 2, "--data");
  ExpectError(Train("out", {"--vocab", "100"}), 2, "--vocab: given '100'");
  ExpectError(Train("out", {"--vocab", "270"}), 2, "vocab: given 270 pieces");
  ExpectError(Train("out", {"--vocabulary", "300"}), 2, "--vocab");
  ExpectError(Train("text"), 2, "overwrite an input");
  ASSERT_EQ(Train("m", {"--vocab", "320"}).status, 0);
  ExpectError(Encode({}), 2, "given neither --data nor --text");
  ExpectError(Encode({"--text", "a", "--data", dir_ / "text"}), 2, "given both --data and --text");
  ExpectError(Decode({}), 2, "given neither --data nor --ids");
}

TEST_F(TokenizerCommand, RefusesBadFiles) {
  WriteText(dir_ / "bad", "abc\xff");
  WriteText(dir_ / "empty", "");
  const auto train = [&](const std::string& data) {
    return RunTool({"tokenizer", "train", "--data", data, "--out", dir_ / "out"});
  };
  ExpectError(train(dir_ / "bad"), 1, "bad: byte offset 3: not UTF-8");
  ExpectError(train(dir_ / "empty"), 1, "no text to learn from");
  ExpectError(train(dir_ / "missing"), 1, "missing: cannot be read");
  ExpectError(train("/dev/zero"), 1, "expected a file");
  ExpectError(RunTool({"tokenizer", "train", "--data", dir_ / "text", "--out", dir_ / "no/out"}), 1,
              "cannot be written");
  for (const char* name : {"text", "bad", "empty", "missing"}) {
    ExpectError(RunTool({"tokenizer", "encode", "--model", dir_ / name, "--text", "a"}), 1, name);
    ExpectError(RunTool({"tokenizer", "decode", "--model", dir_ / name, "--ids", "1"}), 1, name);
  }
  ASSERT_EQ(Train("m", {"--vocab", "320"}).status, 0);
  ExpectError(Encode({"--data", dir_ / "bad"}), 1, "bad: byte offset 3: not UTF-8");
  ExpectError(Encode({"--text", "\xc3("}), 1, "--text: byte offset 0: not UTF-8");
  ExpectError(Decode({"--ids", "1 2 x"}), 1, "--ids: token 3: given 'x', expected a number from 0");
  ExpectError(Decode({"--ids", "-1"}), 1, "token 1: given '-1'");
  ExpectError(Decode({"--ids", "99999999999999999999"}), 1, "token 1: given '99999999999'");
  ExpectError(Decode({"--ids", "400"}), 1, "token 1: given '400'");
  ExpectError(Decode({"--data", dir_ / "text"}), 1, "text: token 1: given 'the'");
}

// A space is a piece even if the training text has none.
TEST_F(TokenizerCommand, SpacesComeBackFromTextsWithoutSpaces) {
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "hello\n";
  WriteText(dir_ / "text", words);
  ASSERT_EQ(Train("m", {"--vocab", "300"}).status, 0);
  const ToolResult ids = Encode({"--text", " to  be ▁"});
  EXPECT_EQ(Decode({"--ids", ids.out}).out, " to  be ▁");
}

}  // namespace
}  // namespace favor
