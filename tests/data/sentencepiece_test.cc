// Text as pieces: every text is reproduced, damaged models are refused, and a file that is read
// through a model is the same text.
#include "data/sentencepiece.h"

#include <gtest/gtest.h>

#include <sentencepiece_trainer.h>
#include <set>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>

#include "core/utf8.h"
#include "data/sentencepiece_model.h"
#include "data/text_file.h"
#include "data/token_store.h"
#include "favor/data.h"
#include "favor/error.h"
#include "favor/random.h"
#include "favor/records.h"
#include "tests/temp_dir.h"

namespace favor::data {
namespace {

constexpr const char* kWords[] = {"the",   "cat", "sat",    "on",   "mat", "naïve", "Straße",
                                  "кошка", "сид", "日本語", "猫が", "12",  "x=3;",  "🐈"};

// Lines of words, `bytes` bytes or a few more.
std::string Words(size_t bytes, uint64_t seed = 1) {
  const RandomStream stream(seed, "words");
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i) {
    text += kWords[static_cast<size_t>(stream.Uniform(i) * std::size(kWords))];
    text += i % 11 == 10 ? ".\n" : i % 7 == 0 ? "  " : " ";
  }
  return text;
}

// A model, learned once for all tests.
class SentencePiece : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir = new TempDir;
    WriteText(*dir / "text", Words(20000));
    result = TrainSentencePiece({.source = *dir / "text", .vocab = 400, .out = Model()});
  }
  static void TearDownTestSuite() { delete dir; }
  static std::string Model() { return *dir / "text.model"; }

  static TempDir* dir;
  static SentencePieceResult result;
};
TempDir* SentencePiece::dir = nullptr;
SentencePieceResult SentencePiece::result;

std::string ErrorOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}

TEST_F(SentencePiece, LearnsPiecesOfWords) {
  EXPECT_GT(result.pieces, 290);
  EXPECT_LE(result.pieces, 400);
  EXPECT_EQ(result.bytes, static_cast<int64_t>(Words(20000).size()));
  EXPECT_LT(result.summary.TokensPerWord(), 2.5);
  const auto vocabulary = OpenSentencePiece(Model());
  EXPECT_EQ(vocabulary->ordinary(), result.pieces);
  EXPECT_EQ(vocabulary->size(), result.pieces + 2);
  EXPECT_EQ(vocabulary->special().hidden, result.pieces);
  EXPECT_EQ(vocabulary->special().padding, result.pieces + 1);
  EXPECT_FALSE(vocabulary->special().begin || vocabulary->special().end);
  const std::vector<int32_t> tokens = vocabulary->Encode(" the cat", "test");
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(vocabulary->Show(tokens[1]), "▁cat");
  EXPECT_EQ(vocabulary->Show(vocabulary->special().hidden), "<hidden>");
  EXPECT_EQ(vocabulary->Decode(std::vector<int32_t>{tokens[1], vocabulary->special().padding, -1}),
            " cat");
}

TEST_F(SentencePiece, GivesEveryTextBack) {
  const auto vocabulary = OpenSentencePiece(Model());
  std::string controls;
  for (char c = 0; c < 32; ++c) controls += c;
  std::string points;  // code points of every length, and those at the borders
  for (const char* point : {"\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufffd",
                            "\uffff", "\U00010000", "\U0010ffff", "\u2047", "\u2585", "\u00a0"})
    points += point;
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("   \n\n  \t x  "), controls, points,
        "▁ ▁▁the▁cat▁" + controls + "▁", std::string("<unk><s></s><0x0A>"), Words(3000, 2),
        Words(100000, 3), std::string(100000, 'a'), std::string("\r\n\r\n"),
        std::string("ends without an end")}) {
    EXPECT_EQ(vocabulary->Decode(vocabulary->Encode(text, "test")), text);
  }
  std::string line = "ab";  // no line ends, and code points across every cut
  while (line.size() < 5 * kLongestCut) line += "猫";
  EXPECT_EQ(vocabulary->Decode(vocabulary->Encode(line, "test")), line);
}

TEST_F(SentencePiece, GivesRandomCodePointsBack) {
  const auto vocabulary = OpenSentencePiece(Model());
  const RandomStream stream(4, "points");
  std::string text;
  for (uint64_t i = 0; i < 20000; ++i) {
    std::string point;
    for (uint64_t j = 0; j < 4; ++j) {
      point += static_cast<char>(static_cast<int>(stream.Uniform(4 * i + j) * 256));
      if (CodePointBytes(point) == point.size()) break;
    }
    if (Utf8Prefix(point) == point.size()) text += point;
  }
  EXPECT_GT(text.size(), 5000u);
  EXPECT_EQ(vocabulary->Decode(vocabulary->Encode(text, "test")), text);
}

TEST_F(SentencePiece, IsTheSameEveryTime) {
  TrainSentencePiece({.source = *dir / "text", .vocab = 400, .out = *dir / "again.model"});
  EXPECT_EQ(ReadText(*dir / "again.model"), ReadText(Model()));
  const auto one = OpenSentencePiece(Model()), two = OpenSentencePiece(*dir / "again.model");
  EXPECT_EQ(one->Encode(Words(500), ""), two->Encode(Words(500), ""));
  EXPECT_EQ(one->Fingerprint(), two->Fingerprint());
  WriteText(*dir / "other", Words(20000, 2));
  TrainSentencePiece({.source = *dir / "other", .vocab = 400, .out = *dir / "again.model"});
  EXPECT_NE(one->Fingerprint(), OpenSentencePiece(*dir / "again.model")->Fingerprint());
}

// Pieces of a text do not depend on how much of it is encoded at once.
TEST_F(SentencePiece, CutsTextTheSameWayInPieces) {
  const auto vocabulary = OpenSentencePiece(Model());
  const std::string text = Words(3 << 20) + std::string(100000, 'x');
  WriteText(*dir / "long", text);
  const io::InputFile file(*dir / "long");
  std::vector<int32_t> tokens;
  int64_t next = 0;
  ForEachRun(file, 0, static_cast<int64_t>(text.size()), [&](std::string_view run, int64_t place) {
    EXPECT_EQ(place, next);
    next += static_cast<int64_t>(run.size());
    const auto more = vocabulary->Encode(run, "test");
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  EXPECT_EQ(next, static_cast<int64_t>(text.size()));
  EXPECT_EQ(tokens, vocabulary->Encode(text, "test"));
}

TEST_F(SentencePiece, RefusesTextThatIsNotUtf8) {
  const auto vocabulary = OpenSentencePiece(Model());
  for (const std::string bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xe7\x8c"}) {
    EXPECT_NE(ErrorOf([&] {
                vocabulary->Encode("猫 " + bad, "prompt");
              }).find("prompt: byte offset 4: not UTF-8"),
              std::string::npos);
  }
  const std::string text = Words(3 << 20);
  WriteText(*dir / "bad", text + "\xff" + text);
  const std::string says = *dir / "bad: byte offset " + std::to_string(text.size());
  EXPECT_NE(ErrorOf([&] { OpenData(*dir / "bad", {.format = {.tokenizer = Model()}}); }).find(says),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              TrainSentencePiece({.source = *dir / "bad", .vocab = 400, .out = *dir / "none"});
            }).find(says),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(*dir / "none"));
}

TEST_F(SentencePiece, RefusesTextsThatGiveNoModel) {
  const auto train = [&](const std::string& text, int64_t vocab) {
    WriteText(*dir / "few", text);
    return ErrorOf([&] {
      TrainSentencePiece({.source = *dir / "few", .vocab = vocab, .out = *dir / "none"});
    });
  };
  EXPECT_NE(train("", 400).find("few: there is no text"), std::string::npos);
  EXPECT_NE(train("\n\t\r\n▁", 400).find("few: there is no text"), std::string::npos);
  EXPECT_NE(train("abc", 260).find("vocab: given 260"), std::string::npos);
  EXPECT_NE(train(Words(1000), 260).find("vocab: given 260"), std::string::npos);
  EXPECT_EQ(train("a", 1000), "no error");
  EXPECT_EQ(train(std::string(5000, ' '), 1000), "no error");
  EXPECT_EQ(train(std::string(50000, 'a'), 1000), "no error");
}

// A text larger than the limit is sampled in parts from beginning to end.
TEST_F(SentencePiece, LearnsFromPartsOfALongText) {
  std::string text(4 << 20, 'a');
  text.replace(text.size() - 4000, 4000, Words(3900).substr(0, 3900) + std::string(100, 'z'));
  text.resize(Utf8Prefix(text));
  WriteText(*dir / "parts", text);
  const SentencePieceResult some = TrainSentencePiece(
      {.source = *dir / "parts", .vocab = 400, .out = *dir / "parts.model", .most_bytes = 2 << 20});
  EXPECT_NEAR(static_cast<double>(some.bytes), 2 << 20, 1 << 17);
  const auto vocabulary = OpenSentencePiece(*dir / "parts.model");
  EXPECT_EQ(vocabulary->Encode("a", "").size(), 1u);
  EXPECT_EQ(vocabulary->Decode(vocabulary->Encode(Words(100), "")), Words(100));
}

TEST_F(SentencePiece, RefusesDamagedModels) {
  const std::string model = ReadText(Model());
  const auto parse = [](const std::string& bytes) {
    return ErrorOf([&] { ParseSentencePiece(bytes, "m"); });
  };
  ASSERT_EQ(parse(model), "no error");
  EXPECT_EQ(parse("").find("m: not a SentencePiece model: it has no pieces"), 0u);
  EXPECT_EQ(parse("hello, I am a text").find("m: not a SentencePiece model"), 0u);
  EXPECT_EQ(parse(std::string(1000, '\xff')).find("m: not a SentencePiece model"), 0u);
  EXPECT_EQ(parse(std::string(1000, '\0')).find("m: not a SentencePiece model"), 0u);
  EXPECT_EQ(parse(model + model).find("m: not a SentencePiece model"),
            0u);                           // every piece occurs twice
  const size_t tail = model.size() - 300;  // settings of training; pieces come before
  for (size_t size = 0; size < tail; size += 37)
    EXPECT_EQ(parse(model.substr(0, size)).find("m: not a SentencePiece model"), 0u) << size;
  for (size_t at = 0; at < model.size(); at += 3) {  // an error or a model, never a crash
    std::string flipped = model;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    if (parse(flipped) != "no error") continue;
    const auto vocabulary = ParseSentencePiece(flipped, "m");
    vocabulary->Decode(vocabulary->Encode(Words(200), "test"));
  }
  EXPECT_NE(ErrorOf([&] { OpenSentencePiece(*dir / "missing"); }).find("missing: cannot be read"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { OpenSentencePiece(dir->path().string()); }).find("expected a file"),
            std::string::npos);
  std::ofstream(*dir / "huge").seekp(100 << 20) << "x";
  EXPECT_NE(ErrorOf([&] { OpenSentencePiece(*dir / "huge"); }).find("huge: longer than"),
            std::string::npos);
}

// Rules with cycles or offsets out of range would lead SentencePiece astray.
TEST_F(SentencePiece, RefusesDamagedRules) {
  const std::string bytes = ReadText(Model());
  PieceModel model = ParsePieceModel(bytes, "m");
  EXPECT_TRUE(model.Exact());
  EXPECT_EQ(model.algorithm, 1u);
  std::vector<uint32_t> units(512, 0);
  const auto with_rules = [&](const std::string& replacements) {
    std::string rules(4, '\0');
    const auto size = static_cast<uint32_t>(4 * units.size());
    std::memcpy(rules.data(), &size, 4);
    rules.append(reinterpret_cast<const char*>(units.data()), size);
    rules += replacements;
    model.rules = rules;
    const std::string changed = SerializePieceModel(model);
    return ErrorOf([&] {
      const auto vocabulary = ParseSentencePiece(changed, "m");
      EXPECT_EQ(vocabulary->Decode(vocabulary->Encode("catq", "")), "cattt");
    });
  };
  units[0] = 256 << 10;
  units[256 ^ 'q'] = static_cast<uint32_t>('q') | 1 << 8 | 128 << 10;  // its value at 256^q^128
  units[256 ^ 'q' ^ 128] = 1u << 31 | 0;
  EXPECT_EQ(with_rules(std::string("tt\0", 3)), "no error");
  EXPECT_NE(with_rules("tt").find("damaged rules"), std::string::npos);
  EXPECT_NE(with_rules(std::string("\x80t\0", 3)).find("damaged rules"), std::string::npos);
  units[256 ^ 'q' ^ 128] = 1u << 31 | 3;
  EXPECT_NE(with_rules(std::string("tt\0", 3)).find("point outside"), std::string::npos);
  units[256 ^ 'q' ^ 128] = 1u << 31 | 0;
  units[0] = 512 << 10;
  EXPECT_NE(with_rules(std::string("tt\0", 3)).find("point outside"), std::string::npos);
  units[0] = 256 << 10;
  units[256 ^ 'q'] = static_cast<uint32_t>('q') | static_cast<uint32_t>('q') << 10;
  EXPECT_NE(with_rules(std::string("tt\0", 3)).find("an endless rule"), std::string::npos);
  model.rules = "abc";
  EXPECT_NE(ErrorOf([&] { ParseSentencePiece(SerializePieceModel(model), "m"); }).find("cut off"),
            std::string::npos);
}

// Models with SentencePiece's usual rules of normalisation and without byte pieces.
TEST_F(SentencePiece, ReadsModelsFromElsewhere) {
  for (const char* algorithm : {"unigram", "bpe", "word", "char"}) {
    const std::string prefix = *dir / algorithm;
    ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train({{"input", *dir / "text"},
                                                            {"model_prefix", prefix},
                                                            {"model_type", algorithm},
                                                            {"vocab_size", "100"},
                                                            {"hard_vocab_limit", "false"},
                                                            {"minloglevel", "3"}})
                    .ok());
    const auto vocabulary = OpenSentencePiece(prefix + ".model");
    const auto read = [&](std::string_view text) {
      return vocabulary->Decode(vocabulary->Encode(text, "test"));
    };
    EXPECT_EQ(read("the  cat\nｓａｔ "), "the cat sat") << algorithm;
    EXPECT_EQ(read("the q"), std::string("the") + (*algorithm == 'w' ? "" : " ") + " ⁇ ");
    EXPECT_NE(read(std::string("the\0 ▁", 8)).find("the"), std::string::npos);
    EXPECT_EQ(read(""), "");
    // They drop line ends: lines cannot be told apart, windows can.
    RecordOptions options{.format = {.tokenizer = prefix + ".model"}};
    EXPECT_NE(ErrorOf([&] { OpenRecords(*dir / "text", options); }).find("expected windows"),
              std::string::npos);
    options.window = 7;
    Record record;
    EXPECT_TRUE(OpenRecords(*dir / "text", options)->Next(record));
    EXPECT_EQ(record.tokens.size(), 8u);
  }
}

// Lines through a model that keeps line ends, and windows that are those of the data.
TEST_F(SentencePiece, ReadsRecordsThroughAModel) {
  const std::string text = Words(30000, 6);
  WriteText(*dir / "records", text);
  const DataFormat format{.tokenizer = Model(), .valid = 0, .test = 0};
  const auto vocabulary = OpenSentencePiece(Model());
  const auto lines = OpenRecords(*dir / "records", {.format = format});
  std::string joined;
  for (Record record; lines->Next(record);) {
    EXPECT_EQ(vocabulary->Decode(std::span(record.tokens).first(1)), "\n");
    joined += vocabulary->Decode(std::span(record.tokens).subspan(1));
  }
  EXPECT_EQ(joined, text.ends_with('\n') ? text : text + "\n");
  const auto data = OpenData(*dir / "records", {.format = format});
  std::multiset<std::vector<int32_t>> of_data, of_reader;
  for (int64_t i = 0; i < data->Batches(Split::kAll, 1, 50); ++i) {
    Batch batch = data->EvalBatch(Split::kAll, {.index = i, .batch = 1, .length = 50});
    std::erase(batch.targets, kNoTarget);
    of_data.insert(batch.targets);
  }
  const auto windows = OpenRecords(*dir / "records", {.format = format, .window = 50});
  for (Record record; windows->Next(record);)
    of_reader.insert({record.tokens.begin() + 1, record.tokens.end()});
  EXPECT_EQ(of_reader, of_data);
}

// The windows of each part, concatenated, are that part, and the parts are the file.
TEST_F(SentencePiece, ReadsAFileThroughAModel) {
  const std::string text = Words(60000, 5);
  WriteText(*dir / "data", text);
  const auto data = OpenData(*dir / "data", {.format = {.tokenizer = Model()}});
  EXPECT_EQ(data->Unit(), "piece");
  EXPECT_EQ(data->vocab(), result.pieces + 2);
  EXPECT_NE(data->Fingerprint().find(OpenSentencePiece(Model())->Fingerprint()), std::string::npos);
  EXPECT_NE(data->Fingerprint(), OpenData(*dir / "data", {})->Fingerprint());
  std::string all;
  SplitSummary sum;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    std::string seen;
    const SplitSummary summary = data->Summary(split);
    EXPECT_EQ(summary.records, 1);
    const int64_t length = summary.tokens - 1;
    ASSERT_EQ(data->Batches(split, 1, length), 1);
    const Batch batch = data->EvalBatch(split, {.index = 0, .batch = 1, .length = length});
    seen = data->vocabulary()->Decode(batch.tokens);
    seen += data->vocabulary()->Decode(std::span(batch.targets).last(1));
    EXPECT_TRUE(split == Split::kTest || seen.ends_with('\n'));
    for (int64_t i = 0; i < data->Batches(split, 1, 32); ++i) {
      const Batch some = data->EvalBatch(split, {.index = i, .batch = 1, .length = 32});
      EXPECT_NE(seen.find(data->vocabulary()->Decode(std::span(some.tokens).first(20))),
                std::string::npos);
    }
    all += seen;
    sum.words += summary.words;
    sum.characters += summary.characters;
    sum.tokens += summary.tokens;
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(sum.tokens, static_cast<int64_t>(data->vocabulary()->Encode(text, "").size()));
  const auto bytes = OpenData(*dir / "data", {});
  int64_t characters = 0;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest})
    characters += bytes->Summary(split).characters;
  EXPECT_EQ(sum.characters, characters);
  const Batch masked =
      OpenData(*dir / "data", {.task = Task::kMasked, .format = {.tokenizer = Model()}})
          ->TrainBatch({.index = 0, .batch = 4, .length = 64});
  for (const int32_t token : masked.tokens) EXPECT_LE(token, result.pieces);
}

TEST(Boundary, IsALineWithinReachOrACodePoint) {
  const TempDir dir;
  WriteText(dir / "text", "猫\nab猫");
  const io::InputFile file(dir / "text");
  const int64_t expected[] = {0, 4, 4, 4, 4, 5, 6, 9, 9, 9};
  for (int64_t at = 0; at < 10; ++at)
    EXPECT_EQ(NextBoundary(file, at, 9), expected[static_cast<size_t>(at)]) << at;
  WriteText(dir / "far", std::string(70000, 'a') + "\nb");
  const io::InputFile far(dir / "far");
  EXPECT_EQ(NextBoundary(far, 10, 70002), 10);
  EXPECT_EQ(NextBoundary(far, 10000, 70002), 70001);
}

// Text that continues may continue a word; text from elsewhere begins one.
TEST(TextCounter, CountsWordsAcrossPieces) {
  const auto words = [](bool follows) {
    TextCounter counter;
    counter.Add("a ca");
    counter.Add("t sat", follows);
    counter.Add(" ö", follows);
    SplitSummary summary;
    counter.Store(summary);
    EXPECT_EQ(summary.characters, 11);
    return summary.words;
  };
  EXPECT_EQ(words(true), 4);
  EXPECT_EQ(words(false), 5);
}

// The largest number of each size is read back.
TEST(NumberFile, HoldsTheLargestToken) {
  for (const auto& [count, bytes] : std::vector<std::pair<int64_t, int>>{
           {1, 1}, {256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {1 << 30, 4}}) {
    EXPECT_EQ(ItemBytes(count), bytes) << count;
    NumberFileWriter writer(ItemBytes(count));
    const std::vector<int32_t> numbers = {0, static_cast<int32_t>(count - 1)};
    writer.Append(numbers);
    std::vector<int32_t> read(2);
    writer.Finish().Read(0, read);
    EXPECT_EQ(read, numbers);
  }
}

// 3 words in 7 tokens at a loss of 0.5 per token: e^(0.5·7/3) = 3.2113… per word.
TEST(SplitSummary, TellsTokensPerWordAndCharacter) {
  const SplitSummary summary{.records = 1, .tokens = 7, .words = 3, .characters = 14};
  EXPECT_NEAR(std::exp(0.5 * summary.TokensPerWord()), 3.211270543153561, 1e-12);
  EXPECT_EQ(summary.TokensPerCharacter(), 0.5);
  EXPECT_EQ(SplitSummary().TokensPerWord(), 0);
  EXPECT_EQ(SplitSummary().TokensPerCharacter(), 0);
}

}  // namespace
}  // namespace favor::data
