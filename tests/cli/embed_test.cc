#include <fmt/format.h>

#include "favor/npy.h"
#include "io/input_file.h"
#include "io/safetensors.h"
#include "tests/cli/train_fixture.h"
#include "tests/data/fasta_fixture.h"

namespace favor {
namespace {

class EmbedCommand : public TrainFixture {
 protected:
  EmbedCommand() {
    std::string text;
    for (uint64_t i = 0; i < 60; ++i)
      text += fmt::format(">p{}\n{}\n", i, RandomSequence(i, 5 + i % 20));
    WriteText(data_, text);
    WriteText(dir_ / "two.fasta", ">x\nMKTAY\n>y\nWW\n");
  }

  void TrainProteins() { Train({"--data", data_, "--length", "12", "--positions", "rotary"}); }

  ToolResult Embed(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"embed", "--model", run_, "--threads", "1", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }

  std::string data_ = dir_ / "p.fasta";
};

TEST_F(EmbedCommand, WritesAnArrayAndATable) {
  TrainProteins();
  const std::string two = dir_ / "two.fasta";
  ASSERT_EQ(Embed({"--data", two, "--out", dir_ / "e.npy", "--pool", "none"}).status, 0);
  const Tensor rows = ReadNpy(dir_ / "e.npy");
  EXPECT_EQ(rows.shape(), (Shape{7, 16}));
  EXPECT_EQ(ReadText(dir_ / "e.tsv"), "id\tfirst_row\trows\nx\t0\t5\ny\t5\t2\n");
  ASSERT_EQ(Embed({"--data", two, "--out", dir_ / "m.npy"}).status, 0);
  const Tensor means = ReadNpy(dir_ / "m.npy");
  ASSERT_EQ(means.shape(), (Shape{2, 16}));
  EXPECT_EQ(ReadText(dir_ / "m.tsv"), "id\tfirst_row\trows\nx\t0\t1\ny\t1\t1\n");
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(means.Data<float>()[16 + i],
                (rows.Data<float>()[5 * 16 + i] + rows.Data<float>()[6 * 16 + i]) / 2, 1e-5);
  }
}

TEST_F(EmbedCommand, WritesSafetensors) {
  TrainProteins();
  const std::string two = dir_ / "two.fasta";
  ASSERT_EQ(Embed({"--data", two, "--out", dir_ / "e.safetensors", "--pool", "none"}).status, 0);
  const std::string bytes = ReadText(dir_ / "e.safetensors");
  const io::Safetensors each = io::ParseSafetensors(std::as_bytes(std::span(bytes)), "e");
  EXPECT_EQ(each.Entry("x", "e").shape, (std::vector<int64_t>{5, 16}));
  EXPECT_EQ(each.Entry("y", "e").shape, (std::vector<int64_t>{2, 16}));
  ASSERT_EQ(Embed({"--data", two, "--out", dir_ / "m.safetensors", "--layer", "0"}).status, 0);
  const std::string pooled = ReadText(dir_ / "m.safetensors");
  const io::Safetensors means = io::ParseSafetensors(std::as_bytes(std::span(pooled)), "m");
  EXPECT_EQ(means.Metadata("ids", "m"), R"(["x","y"])");
  const std::vector<float> values = means.Entry("embeddings", "m").Values<float>("m");
  ASSERT_EQ(Embed({"--data", two, "--out", dir_ / "m.npy", "--layer", "0"}).status, 0);
  const Tensor same = ReadNpy(dir_ / "m.npy");
  EXPECT_TRUE(std::equal(values.begin(), values.end(), same.Data<float>()));
}

TEST_F(EmbedCommand, BadInputIsOneLine) {
  TrainProteins();
  const auto expect = [&](const std::vector<std::string>& words, const std::string& says) {
    const ToolResult result = Embed(words);
    ExpectError(result, result.status, says);
    EXPECT_NE(result.status, 0);
  };
  const std::string two = dir_ / "two.fasta";
  expect({"--data", two, "--out", dir_ / "out.txt"}, "ends in .npy or .safetensors");
  expect({"--data", two, "--out", dir_ / "out.npy", "--layer", "2"},
         "expected 0 (the embedding) to 1");
  expect({"--data", dir_ / "none.fasta", "--out", dir_ / "out.npy"}, "none.fasta");
  WriteText(dir_ / "twins.fasta", ">x\nMK\n>x\nWW\n");
  expect({"--data", dir_ / "twins.fasta", "--out", dir_ / "out.safetensors", "--pool", "none"},
         "a record has the name 'x', like another one");
  WriteText(dir_ / "odd.fasta", ">__metadata__\nMK\n");
  expect({"--data", dir_ / "odd.fasta", "--out", dir_ / "out.safetensors", "--pool", "none"},
         "has for itself");
  WriteText(dir_ / "odd.fasta", ">\xff\xfe\nMK\n");
  expect({"--data", dir_ / "odd.fasta", "--out", dir_ / "out.safetensors"}, "is not UTF-8");
  expect({"--data", two, "--out", dir_ / "out.npy", "--windows"}, "expected text");
  WriteText(dir_ / "bad.fasta", ">x\nMK\n>y\n12\n");
  expect({"--data", dir_ / "bad.fasta", "--out", dir_ / "out.npy"}, "line 4");
}

}  // namespace
}  // namespace favor
