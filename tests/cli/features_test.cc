#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/tool_fixture.h"

namespace favor {
namespace {

class FeaturesCommand : public ToolFixture {
 protected:
  FeaturesCommand() { Save("x.npy", {2, 6, 8}); }

  // favor features --input x.npy --out out.npy, and more.
  ToolResult Run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"features", "--input", dir_ / "x.npy", "--out",
                                      dir_ / "out.npy"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }
};

TEST_F(FeaturesCommand, WritesTheFeaturesOfTheLibrary) {
  const ToolResult result = Run({"--features", "12", "--seed", "7", "--map", "oprf", "--scale",
                                 "0.25", "--save-omega", dir_ / "w.npy", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Tensor phi = ReadNpy(dir_ / "out.npy"), omega = ReadNpy(dir_ / "w.npy");
  EXPECT_EQ(phi.type(), DataType::kF64);
  EXPECT_EQ(phi.shape(), (Shape{2, 6, 12}));
  EXPECT_EQ(omega.shape(), (Shape{2, 12, 8}));
  Tensor x = ReadNpy(dir_ / "x.npy").To(DataType::kF64);
  for (int64_t i = 0; i < 96; ++i) x.Data<double>()[i] *= 0.5;
  const auto plan = FeaturePlan::Draw({.map = "oprf", .features = 12}, 2, 8, 7);
  const Tensor want = Features(plan, x, Context());
  for (int64_t i = 0; i < 144; ++i) EXPECT_EQ(phi.Data<double>()[i], want.Data<double>()[i]);
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary["width"], 12);
  EXPECT_EQ(summary["oprf_a"][1].get<double>(), plan.OprfA(1));
}

TEST_F(FeaturesCommand, GivesTheSameBytesInEveryProcessForAnyNumberOfThreads) {
  ASSERT_EQ(Run({"--threads", "1", "--seed", "3"}).status, 0);
  const std::string one = ReadText(dir_ / "out.npy");
  for (const char* threads : {"1", "2", "3", "8", "16"}) {
    ASSERT_EQ(Run({"--threads", threads, "--seed", "3"}).status, 0);
    EXPECT_EQ(ReadText(dir_ / "out.npy"), one) << threads;
  }
}

TEST_F(FeaturesCommand, LogWritesExponents) {
  ASSERT_EQ(Run({"--features", "5"}).status, 0);
  const Tensor phi = ReadNpy(dir_ / "out.npy");
  const ToolResult result = Run({"--features", "5", "--log", "--json"});
  ASSERT_EQ(result.status, 0);
  const Tensor exponents = ReadNpy(dir_ / "out.npy");
  const double c = nlohmann::json::parse(result.out)["log_normalizer"][0];
  EXPECT_NEAR(c, -std::log(5) / 2, 1e-12);
  for (int64_t i = 0; i < 60; ++i)
    EXPECT_NEAR(std::exp(exponents.Data<double>()[i] + c), phi.Data<double>()[i], 1e-12);
}

TEST_F(FeaturesCommand, TakesAGivenOmegaAndTheStatisticsOfTheOtherSide) {
  ASSERT_EQ(Run({"--features", "12", "--save-omega", dir_ / "w.npy"}).status, 0);
  const std::string drawn = ReadText(dir_ / "out.npy");
  ASSERT_EQ(Run({"--omega", dir_ / "w.npy"}).status, 0);
  EXPECT_EQ(ReadText(dir_ / "out.npy"), drawn);
  const ToolResult result = Run({"--map", "oprf", "--oprf-with", dir_ / "x.npy", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Tensor x = ReadNpy(dir_ / "x.npy");
  EXPECT_EQ(nlohmann::json::parse(result.out)["oprf_a"][0].get<double>(),
            OptimalOprfA(x, x, Context())[0]);
}

TEST_F(FeaturesCommand, RefusesWrongUsage) {
  ExpectError(Run({"--map", "positve"}), 2, "did you mean 'positive'?");
  ExpectError(Run({"--projection", "orthogonl"}), 2, "did you mean 'orthogonal'?");
  ExpectError(Run({"--role", "value"}), 2, "one of: query, key");
  for (const char* bad : {"0", "-3", "99999999999999999999", "2000000", "abc", "1.5", "", "12x"}) {
    ExpectError(Run({"--features", bad}), 2, "--features: given '" + std::string(bad) + "'");
  }
  ExpectError(Run({"--seed", "-1"}), 2, "--seed");
  ExpectError(Run({"--threads", "0"}), 2, "--threads");
  ExpectError(Run({"--scale", "0"}), 2, "--scale");
  ExpectError(Run({"--scale", "nan"}), 2, "--scale");
  ExpectError(Run({"--omega-norm", "two"}), 2, "(one of: map, chi, sqrt-d)");
  ExpectError(Run({"--map", "oprf", "--omega-norm", "sqrt-d"}), 2, "right only with chi");
  ExpectError(Run({"--map", "oprf", "--oprf-a", "1"}), 2, "--oprf-a: given '1', expected a number");
  ExpectError(Run({"--map", "oprf", "--oprf-a", "0.125"}), 2, "below 1/8");
  ExpectError(Run({"--kernel-epsilon", "1e-4"}), 2, "takes none");
  ExpectError(Run({"--projection", "none"}), 2, "needs a random one");
  ExpectError(Run({"--featurs", "8"}), 2, "did you mean '--features'?");
  ExpectError(Run({"stray"}), 2, "stray");
  ExpectError(Run({"--features"}), 2, "--features");
  ExpectError(Run({"--save-omega", dir_ / "out.npy"}), 2, "same file");
  ExpectError(RunTool({"features", "--out", dir_ / "out.npy"}), 2, "--input");
}

TEST_F(FeaturesCommand, RefusesBadFiles) {
  const auto with_input = [&](const std::string& path) {
    return RunTool({"features", "--input", path, "--out", dir_ / "out.npy"});
  };
  ExpectError(with_input(dir_ / "missing.npy"), 1, "missing.npy: cannot be read");
  ExpectError(with_input(dir_.path().string()), 1, "cannot be read");
  WriteText(dir_ / "text.npy", "hello");
  ExpectError(with_input(dir_ / "text.npy"), 1, "not an npy file");
  std::string cut = ReadText(dir_ / "x.npy");
  cut.resize(cut.size() - 1);
  WriteText(dir_ / "cut.npy", cut);
  ExpectError(with_input(dir_ / "cut.npy"), 1, "truncated");
  for (const float bad : {std::nanf(""), INFINITY}) {
    Tensor x({2, 3});
    x.Data<float>()[4] = bad;
    WriteNpy(dir_ / "bad.npy", x);
    ExpectError(with_input(dir_ / "bad.npy"), 1, "NaN or infinity");
  }
  WriteNpy(dir_ / "flat.npy", Tensor({6}));
  ExpectError(with_input(dir_ / "flat.npy"), 1, "given shape [6]");
  WriteNpy(dir_ / "empty.npy", Tensor({0, 6}));
  ExpectError(with_input(dir_ / "empty.npy"), 1, "empty array");
  WriteNpy(dir_ / "w.npy", Tensor({4, 9}));
  ExpectError(Run({"--omega", dir_ / "w.npy"}), 1, "expected rows of dim 8");
  WriteNpy(dir_ / "w3.npy", Tensor({3, 4, 8}));
  ExpectError(Run({"--omega", dir_ / "w3.npy"}), 1, "for 2 heads");
}

// With a given ω, options that say how to draw one would be ignored: they are refused.
TEST_F(FeaturesCommand, AGivenOmegaIsNotDrawn) {
  WriteNpy(dir_ / "w.npy", Tensor({4, 8}));
  const std::vector<std::vector<std::string>> drawing = {{"--projection", "orthogonal"},
                                                         {"--features", "4"},
                                                         {"--omega-norm", "chi"},
                                                         {"--shared-omega"},
                                                         {"--no-shared-omega"}};
  for (std::vector<std::string> more : drawing) {
    more.insert(more.end(), {"--omega", dir_ / "w.npy"});
    ExpectError(Run(more), 2, "which says how to draw one");
  }
  EXPECT_EQ(Run({"--omega", dir_ / "w.npy"}).status, 0);
}

TEST_F(FeaturesCommand, RefusesOutputsThatCannotBeWritten) {
  const auto with_output = [&](const std::string& path) {
    return RunTool({"features", "--input", dir_ / "x.npy", "--out", path});
  };
  ExpectError(with_output(dir_ / "no/such/out.npy"), 1, "cannot be written");
  ExpectError(with_output(dir_.path().string()), 1, "directory");
  ExpectError(with_output("/dev/full"), 1, "writing failed");
  // The second output fails: the first is not written either.
  ExpectError(Run({"--save-omega", dir_ / "no/such/w.npy"}), 1, "cannot be written");
}

}  // namespace
}  // namespace favor
