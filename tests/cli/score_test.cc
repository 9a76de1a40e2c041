#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "tests/cli/train_fixture.h"
#include "tests/data/fasta_fixture.h"

namespace favor {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows Cells(const std::string& text) {
  Rows rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

class ScoreCommand : public TrainFixture {
 protected:
  ScoreCommand() {
    std::string text;
    for (uint64_t i = 0; i < 60; ++i)
      text += fmt::format(">p{}\n{}\n", i, RandomSequence(i, 5 + i % 20));
    WriteText(data_, text);
  }

  void TrainProteins(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--data", data_, "--length", "12", "--positions", "rotary"};
    words.insert(words.end(), more.begin(), more.end());
    Train(words);
  }

  ToolResult Score(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"score", "--model", run_, "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }

  std::string data_ = dir_ / "p.fasta";
};

TEST_F(ScoreCommand, PrintsARowForEachRecord) {
  TrainProteins();
  const ToolResult result = Score({"--data", data_, "--out", dir_ / "scores.tsv"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("records are longer than the length of 12"), std::string::npos);
  EXPECT_NE(result.err.find("score: 60 records, "), std::string::npos) << result.err;
  const Rows rows = Cells(ReadText(dir_ / "scores.tsv"));
  ASSERT_EQ(rows.size(), 61u);
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"id", "length", "targets", "log_likelihood", "perplexity"}));
  double sum = 0, targets = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const int64_t length = 5 + static_cast<int64_t>(i - 1) % 20;
    EXPECT_EQ(rows[i][0], fmt::format("p{}", i - 1));
    EXPECT_EQ(rows[i][1], std::to_string(length));
    EXPECT_EQ(rows[i][2], std::to_string(std::min<int64_t>(12, length + 1)));
    EXPECT_NEAR(std::stod(rows[i][4]), std::exp(-std::stod(rows[i][3]) / std::stod(rows[i][2])),
                1e-4);
    sum += std::stod(rows[i][3]);
    targets += std::stod(rows[i][2]);
  }
  const ToolResult eval =
      RunTool({"eval", "--model", run_, "--data", data_, "--split", "all", "--json", "--quiet"});
  const auto json = nlohmann::json::parse(eval.out);
  EXPECT_EQ(json["tokens"].get<double>(), targets);
  EXPECT_NEAR(json["loss"].get<double>(), -sum / targets, 1e-6);
}

TEST_F(ScoreCommand, PrintsARowForEachPosition) {
  TrainProteins();
  WriteText(dir_ / "one.fasta", ">x y\nMKT\n");
  const ToolResult whole = Score({"--data", dir_ / "one.fasta", "--quiet"}),
                   each = Score({"--data", dir_ / "one.fasta", "--positions", "--quiet"});
  ASSERT_EQ(each.status, 0) << each.err;
  EXPECT_EQ(each.err, "");
  const Rows rows = Cells(each.out);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"id", "position", "token", "log_likelihood"}));
  double sum = 0;
  const std::vector<std::string> tokens = {"M", "K", "T", "<end>"};
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i][0], "x");
    EXPECT_EQ(rows[i][1], std::to_string(i));
    EXPECT_EQ(rows[i][2], tokens[i - 1]);
    sum += std::stod(rows[i][3]);
  }
  EXPECT_NEAR(sum, std::stod(Cells(whole.out)[1][3]), 1e-5);
}

// Names come back whole, however long; control characters are escaped.
TEST_F(ScoreCommand, NamesAreWhole) {
  TrainProteins();
  const std::string name(200, 'n');
  WriteText(dir_ / "long.fasta", ">" + name + "1\nMK\n>" + name + "2\x01\nMK\n");
  const ToolResult result = Score({"--data", dir_ / "long.fasta", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Cells(result.out)[1][0], name + "1");
  EXPECT_EQ(Cells(result.out)[2][0], name + "2\\x01");
}

// A difference of parts is said to be one.
TEST_F(ScoreCommand, AClippedWildTypeIsMentioned) {
  TrainProteins();
  WriteText(dir_ / "wild.fasta", ">w\nMKTAYMKTAYMKTAYMKTAY\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--mutations", "K2R"}, {"--compare", data_}}) {
    std::vector<std::string> all = {"--data", dir_ / "wild.fasta", "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = Score(all);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("w: 1 of 1 records are longer"), std::string::npos) << result.err;
  }
}

TEST_F(ScoreCommand, EncodersSayWhatItCosts) {
  TrainProteins({"--task", "masked"});
  WriteText(dir_ / "one.fasta", ">x\nMKTAYIAK\n>y\nWWW\n");
  const ToolResult each = Score({"--data", dir_ / "one.fasta"}),
                   every = Score({"--data", dir_ / "one.fasta", "--every", "4"});
  EXPECT_NE(each.err.find("score: 11 passes over 2 sequences"), std::string::npos) << each.err;
  EXPECT_NE(every.err.find("score: 7 passes over 2 sequences"), std::string::npos) << every.err;
  EXPECT_EQ(Cells(each.out)[1][2], "8");
}

TEST_F(ScoreCommand, ComparesWithOneRecord) {
  TrainProteins();
  WriteText(dir_ / "wild.fasta", ">w\nMKTAY\n");
  WriteText(dir_ / "mutants.fasta", ">a\nMKTAY\n>b\nMKTAW\n");
  const ToolResult result =
      Score({"--data", dir_ / "wild.fasta", "--compare", dir_ / "mutants.fasta", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Rows rows = Cells(result.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].back(), "difference");
  EXPECT_NEAR(std::stod(rows[1][5]), 0, 1e-5);
  EXPECT_NEAR(std::stod(rows[2][5]), std::stod(rows[2][3]) - std::stod(rows[1][3]), 1e-5);
  const ToolResult mutation =
      Score({"--data", dir_ / "wild.fasta", "--mutations", "Y5W", "--quiet"});
  EXPECT_NEAR(std::stod(Cells(mutation.out)[1][1]), std::stod(rows[2][5]), 1e-5);
}

TEST_F(ScoreCommand, DrawsAllMutations) {
  TrainProteins();
  const ToolResult result = Score({"--data", data_, "--record", "p1", "--mutations", "all", "--out",
                                   dir_ / "all.tsv", "--heat-map", dir_ / "all.svg", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Rows rows = Cells(ReadText(dir_ / "all.tsv"));
  ASSERT_EQ(rows.size(), 1u + 6 * 19);  // p1 has six residues
  // The first row of the table is the first cell that is not grey.
  const std::string svg = ReadText(dir_ / "all.svg"), name = rows[1][0];
  const std::string cell = fmt::format("{} {}: {:.3f}</title>", name.substr(0, 2), name.substr(2),
                                       std::stod(rows[1][1]));
  EXPECT_NE(svg.find(cell), std::string::npos) << cell;
}

TEST_F(ScoreCommand, BadInputIsOneLine) {
  TrainProteins();
  WriteText(dir_ / "wild.fasta", ">w\nMKTAY\n");
  const auto expect = [&](const std::vector<std::string>& words, const std::string& says) {
    std::vector<std::string> all = {"--out", dir_ / "out.tsv"};
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = Score(all);
    ExpectError(result, result.status, says);
    EXPECT_NE(result.status, 0);
  };
  WriteText(dir_ / "bad.fasta", ">w\nMKTAY\n>v\nMK?\n");
  expect({"--data", dir_ / "bad.fasta"}, "line 4");
  expect({"--data", dir_ / "nowhere.fasta"}, "nowhere.fasta");
  expect({"--data", dir_ / "wild.fasta", "--mutations", "A1G"}, "position 1 of 'w' is M");
  expect({"--data", dir_ / "wild.fasta", "--mutations", "all", "--positions"}, "one of them");
  expect({"--data", dir_ / "wild.fasta", "--heat-map", dir_ / "out.svg"}, "--mutations all");
  expect({"--data", dir_ / "wild.fasta", "--record", "w"}, "--mutations or --compare");
  expect({"--data", data_, "--mutations", "all"}, "is not the only one");
  expect({"--data", dir_ / "wild.fasta", "--layout", "join"}, "join");
  expect({"--data", dir_ / "wild.fasta", "--every", "4"}, "expected an encoder");
  expect({"--data", dir_ / "wild.fasta", "--windows"}, "expected text");
  expect({"--data", "-", "--compare", "-"}, "it for one of them");
  expect({"--data", data_, "--record", "p19", "--mutations", "all"}, "beyond the length of 12");
}

}  // namespace
}  // namespace favor
