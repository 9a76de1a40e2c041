#include <nlohmann/json.hpp>

#include "tests/cli/tool_fixture.h"

namespace favor {
namespace {

class StateCommand : public ToolFixture {
 protected:
  StateCommand() {
    Save("k1.npy", {2, 7, 8});
    Save("v1.npy", {2, 7, 3});
    Save("k2.npy", {2, 5, 8});
    Save("v2.npy", {2, 5, 3});
    Save("q.npy", {2, 4, 8});
  }

  ToolResult Append(const std::string& state, const std::string& part,
                    std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"state",   "append",
                                      "--state", dir_ / state,
                                      "--k",     dir_ / ("k" + part + ".npy"),
                                      "--v",     dir_ / ("v" + part + ".npy")};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }
  std::string Read(const std::string& state) const {
    const ToolResult result = RunTool({"state", "read", "--state", dir_ / state, "--q",
                                       dir_ / "q.npy", "--out", dir_ / "answer.npy"});
    EXPECT_EQ(result.status, 0) << result.err;
    return ReadText(dir_ / "answer.npy");
  }
};

TEST_F(StateCommand, ForgetsAndMergesInOrder) {
  for (const auto& [name, length] : {std::pair("d1.npy", 7), std::pair("d2.npy", 5)}) {
    Tensor decay({length});
    for (int64_t i = 0; i < length; ++i) decay.Data<float>()[i] = -0.3f * static_cast<float>(i % 3);
    WriteNpy(dir_ / name, decay);
  }
  const std::vector<std::string> first = {"--features", "12", "--log-decay", dir_ / "d1.npy"},
                                 later = {"--features",    "12",      "--log-decay",
                                          dir_ / "d2.npy", "--begin", "7"};
  ASSERT_EQ(Append("s", "1", first).status, 0);
  ExpectError(Append("s", "2"), 2, "not given to a state that forgets");
  ASSERT_EQ(Append("s", "2", {"--log-decay", dir_ / "d2.npy"}).status, 0);
  ASSERT_EQ(Append("a", "1", first).status, 0);
  ASSERT_EQ(Append("b", "2", later).status, 0);
  ExpectError(RunTool({"state", "merge", dir_ / "b", dir_ / "a", "--out", dir_ / "ba"}), 1,
              "ends at token 12 and one that begins at 0");
  ASSERT_EQ(RunTool({"state", "merge", dir_ / "a", dir_ / "b", "--out", dir_ / "ab"}).status, 0);
  Read("s");
  const Tensor appended = ReadNpy(dir_ / "answer.npy");
  Read("ab");
  const Tensor merged = ReadNpy(dir_ / "answer.npy");
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_NEAR(appended.Data<float>()[i], merged.Data<float>()[i], 1e-5);
  const auto shown = nlohmann::json::parse(RunTool({"state", "show", dir_ / "ab", "--json"}).out);
  EXPECT_EQ(shown["begin"], 0);
  EXPECT_EQ(shown["end"], 12);
  EXPECT_EQ(shown["forgets"], true);
  EXPECT_NE(RunTool({"state", "show", dir_ / "b"}).out.find("from 7 to 12 that forget"),
            std::string::npos);
  ASSERT_EQ(Append("n", "1", {"--features", "12"}).status, 0);
  ExpectError(Append("n", "2", {"--log-decay", dir_ / "d2.npy"}), 2,
              "given to a state that forgets nothing");
}

TEST_F(StateCommand, AppendsReadsMergesAndShows) {
  ASSERT_EQ(Append("s", "1", {"--features", "12", "--seed", "3"}).status, 0);
  ASSERT_EQ(Append("s", "2").status, 0);  // keeps the map and ω of the file
  ASSERT_EQ(Append("a", "1", {"--features", "12", "--seed", "3"}).status, 0);
  ASSERT_EQ(Append("b", "2", {"--features", "12", "--seed", "3"}).status, 0);
  const ToolResult merge =
      RunTool({"state", "merge", dir_ / "a", dir_ / "b", "--out", dir_ / "ab"});
  ASSERT_EQ(merge.status, 0) << merge.err;
  Read("s");
  const Tensor appended = ReadNpy(dir_ / "answer.npy");
  Read("ab");
  const Tensor merged = ReadNpy(dir_ / "answer.npy");
  ASSERT_EQ(merged.shape(), (Shape{2, 4, 3}));
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_NEAR(appended.Data<float>()[i], merged.Data<float>()[i], 1e-5);
  ASSERT_EQ(RunTool({"state", "read", "--state", dir_ / "ab", "--q", dir_ / "q.npy", "--out",
                     dir_ / "answer.npy", "--numerator", dir_ / "n.npy", "--denominator",
                     dir_ / "d.npy", "--log-scale", dir_ / "r.npy"})
                .status,
            0);
  const Tensor n = ReadNpy(dir_ / "n.npy"), d = ReadNpy(dir_ / "d.npy");
  ASSERT_EQ(n.shape(), (Shape{2, 4, 3}));
  ASSERT_EQ(ReadNpy(dir_ / "r.npy").shape(), (Shape{2, 4}));
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_NEAR(n.Data<double>()[i] / d.Data<double>()[i / 3], merged.Data<float>()[i], 1e-6);
  const auto shown = nlohmann::json::parse(RunTool({"state", "show", dir_ / "ab", "--json"}).out);
  EXPECT_EQ(shown["tokens"], 12);
  EXPECT_EQ(shown["map"], "positive");
  const ToolResult named = RunTool({"state", "show", "--state", dir_ / "ab"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_NE(named.out.find("12 tokens"), std::string::npos);
  EXPECT_EQ(RunTool({"state", "show", dir_ / "ab"}).out, named.out);
  EXPECT_EQ(nlohmann::json::parse(RunTool({"state", "show", "--state", dir_ / "ab", "--json"}).out),
            shown);
}

TEST_F(StateCommand, RefusesWhatDoesNotFit) {
  ASSERT_EQ(Append("s", "1", {"--features", "12"}).status, 0);
  const std::string before = ReadText(dir_ / "s");
  Save("k3.npy", {2, 5, 9});
  Save("v3.npy", {2, 5, 3});
  ExpectError(Append("s", "3"), 1, "k: given shape [2, 5, 9]");
  EXPECT_EQ(ReadText(dir_ / "s"), before);
  ASSERT_EQ(Append("t", "2", {"--features", "12", "--seed", "9"}).status, 0);
  ExpectError(RunTool({"state", "merge", dir_ / "s", dir_ / "t", "--out", dir_ / "out"}), 1,
              "ω differs");
  WriteText(dir_ / "damaged", before.substr(0, before.size() - 5));
  ExpectError(RunTool({"state", "show", dir_ / "damaged"}), 1, "damaged");
  ExpectError(RunTool({"state", "show", dir_ / "q.npy"}), 1, "not a safetensors file");
  ExpectError(Append("damaged", "1"), 1, "damaged");
  ExpectError(RunTool({"state", "show", dir_ / "missing"}), 1, "cannot be read");
  ExpectError(RunTool({"state", "show", "--state", dir_ / "missing"}), 1, "cannot be read");
  ExpectError(RunTool({"state", "show"}), 2,
              "state show: --state: given nothing, expected one FILE");
  ExpectError(RunTool({"state", "show", dir_ / "s", "--state", dir_ / "t"}), 2,
              "expected one FILE");
  ExpectError(RunTool({"state", "show", dir_ / "s", dir_ / "t"}), 2, "expected FILE");
  ExpectError(RunTool({"state", "merge", dir_ / "s", "--out", dir_ / "out"}), 2, "state");
  ExpectError(RunTool({"state"}), 2, "state");
  ExpectError(RunTool({"state", "apend"}), 2, "did you mean 'append'?");
  ExpectError(Append("new", "1", {"--map", "positve"}), 2, "did you mean 'positive'?");
}

}  // namespace
}  // namespace favor
