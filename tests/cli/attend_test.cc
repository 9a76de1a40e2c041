#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/device.h"
#include "tests/attention/oracle.h"
#include "tests/cli/tool_fixture.h"

namespace favor {
namespace {

class AttendCommand : public ToolFixture {
 protected:
  AttendCommand()
      : q_(Save("q.npy", {4, 9, 8})), k_(Save("k.npy", {2, 9, 8})), v_(Save("v.npy", {2, 9, 5})) {}

  ToolResult Run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"attend",       "--q",          dir_ / "q.npy",
                                      "--k",          dir_ / "k.npy", "--v",
                                      dir_ / "v.npy", "--out",        dir_ / "out.npy"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTool(words);
  }

  // The tool did what the library does, bit for bit.
  void ExpectSame(const std::vector<std::string>& more, const AttentionOptions& options,
                  uint64_t seed = 0) const {
    const ToolResult result = Run(more);
    ASSERT_EQ(result.status, 0) << result.err;
    const Tensor out = ReadNpy(dir_ / "out.npy"),
                 want = Attend(q_, k_, v_, options, Context({.seed = seed}));
    ASSERT_EQ(out.shape(), want.shape());
    ASSERT_EQ(out.type(), want.type());
    EXPECT_EQ(std::memcmp(out.view().data(), want.view().data(), static_cast<size_t>(out.Bytes())),
              0);
  }

  Tensor q_, k_, v_;
};

TEST_F(AttendCommand, ConvertsItsInputs) {
  q_ = q_.To(DataType::kBF16);
  k_ = k_.To(DataType::kBF16);
  v_ = v_.To(DataType::kBF16);
  ExpectSame({"--type", "bf16", "--attention", "exact"}, {.attention = "exact"});
  ExpectSame({"--type", "bf16", "--device", "cpu"}, {});
}

TEST_F(AttendCommand, DoesWhatTheLibraryDoes) {
  ExpectSame({"--attention", "exact"}, {.attention = "exact"});
  ExpectSame({"--attention", "exact", "--causal", "--scale", "0.7"},
             {.attention = "exact", .causal = true, .scale = 0.7});
  AttentionOptions window{.attention = "exact-window", .causal = true};
  ExpectSame({"--attention", "exact-window", "--causal"}, window);
  window.kind_options = {{"window", 2}};
  ExpectSame({"--attention", "exact-window", "--causal", "--window", "2"}, window);
  ExpectSame({"--features", "12", "--seed", "5"}, {.features = {.features = 12}}, 5);
  ExpectSame({"--map", "oprf", "--oprf-a", "-0.1", "--causal", "--chunk", "4"},
             {.causal = true, .features = {.map = "oprf", .oprf_a = {-0.1}}, .chunk = 4});
  ExpectSame({"--attention", "uniform", "--device", "reference"},
             {.attention = "uniform", .reference = true});
  ExpectSame({"--unnormalized", "--projection", "hadamard"},
             {.renormalize = false, .features = {.projection = "hadamard"}});
  ExpectSame({"--center-keys"}, {.center_keys = true});
  ExpectSame({"--omega-type", "bf16"}, {.features = {.omega_type = OmegaType::kBF16}});
  ExpectSame({"--compat", "torch", "--causal"}, {.causal = true, .compat = Compat::kTorch});
  const Tensor mean = Save("mean.npy", {2, 8});
  AttentionOptions frozen{.causal = true, .center_keys = true};
  frozen.key_mean = mean;
  ExpectSame({"--causal", "--center-keys", dir_ / "mean.npy"}, frozen);
}

TEST_F(AttendCommand, ReadsMasksOfBooleansAndFloats) {
  Tensor mask({9});
  for (int64_t i = 0; i < 9; ++i) mask.Data<float>()[i] = i % 2 == 0 ? 1 : 0;
  WriteNpy(dir_ / "mask.npy", mask);
  ExpectSame({"--key-mask", dir_ / "mask.npy"}, {.key_mask = mask});
  const std::string header = "{'descr': '|b1', 'fortran_order': False, 'shape': (9,), }\n";
  WriteText(dir_ / "bool.npy", std::string("\x93NUMPY\x01\x00", 8) +
                                   static_cast<char>(header.size()) + '\0' + header +
                                   std::string("\1\0\1\0\1\0\1\0\1", 9));
  ExpectSame({"--key-mask", dir_ / "bool.npy"}, {.key_mask = mask});
}

TEST_F(AttendCommand, WritesMatrixAndOmega) {
  const ToolResult result = Run(
      {"--features", "6", "--matrix", dir_ / "a.npy", "--save-omega", dir_ / "w.npy", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(ReadNpy(dir_ / "w.npy").shape(), (Shape{4, 6, 8}));
  const Tensor matrix = ReadNpy(dir_ / "a.npy");
  ASSERT_EQ(matrix.shape(), (Shape{4, 9, 9}));
  double sum = 0;
  for (int64_t j = 0; j < 9; ++j) sum += matrix.Data<float>()[j];
  EXPECT_NEAR(sum, 1, 1e-5);
  const std::string drawn = ReadText(dir_ / "out.npy");
  ASSERT_EQ(Run({"--omega", dir_ / "w.npy"}).status, 0);
  EXPECT_EQ(ReadText(dir_ / "out.npy"), drawn);
}

TEST_F(AttendCommand, ReportsRowsWithoutAPositiveDenominator) {
  const ToolResult result = Run({"--map", "identity", "--features", "8", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GT(nlohmann::json::parse(result.out)["nonpositive_rows"].get<int>(), 0);
  EXPECT_NE(Run({"--map", "identity", "--features", "8"}).out.find("not positive"),
            std::string::npos);
}

TEST_F(AttendCommand, TakesMapsWithoutOmega) {
  for (const char* map : {"taylor1", "taylor"}) {
    ExpectSame({"--map", map}, {.features = {.map = map}});
    ExpectSame({"--map", map, "--causal"}, {.causal = true, .features = {.map = map}});
  }
}

TEST_F(AttendCommand, GivesTheSameBytesForAnyNumberOfThreads) {
  ASSERT_EQ(Run({"--threads", "1", "--causal"}).status, 0);
  const std::string one = ReadText(dir_ / "out.npy");
  for (const char* threads : {"2", "3", "8", "16"}) {
    const ToolResult result = Run({"--threads", threads, "--causal"});
    ASSERT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(ReadText(dir_ / "out.npy"), one) << threads;
  }
}

TEST_F(AttendCommand, RefusesWhatDoesNotFit) {
  ExpectError(Run({"--attention", "exakt"}), 2, "did you mean 'exact'?");
  ExpectError(Run({"--map", "taylor", "--save-omega", dir_ / "w.npy"}), 2, "which has none");
  ExpectError(Run({"--causal", "--center-keys"}), 2, "frozen mean");
  ExpectError(Run({"--causal", "--map", "oprf"}), 2, "--oprf-a");
  ExpectError(Run({"--attention", "exact", "--save-omega", dir_ / "w.npy"}), 2,
              "belong to --attention linear");
  ExpectError(Run({"--attention", "exact", "--compat", "jax"}), 2, "belong to linear attention");
  ExpectError(Run({"--chunk", "0"}), 2, "--chunk");
  ExpectError(Run({"--window", "3"}), 2, "given window, which 'linear' attention does not have");
  ExpectError(Run({"--attention", "exact-window", "--window", "-3"}), 2, "--window: given '-3'");
  ExpectError(Run({"--matrix", dir_ / "out.npy"}), 2, "same file");
  ExpectError(Run({"--matrix", dir_ / "./out.npy"}), 2, "same file");
  ExpectError(Run({"--matrix", dir_ / "q.npy"}), 2, "overwrite an input");
  ExpectError(Run({"--key-mask", ""}), 2, "--key-mask: given an empty path");
  ExpectError(Run({"--attention", "exact", "--map", "relu"}), 2, "belong to --attention linear");
  ExpectError(Run({"--omega", dir_ / "q.npy", "--features", "8"}), 2,
              "given --omega and --features");
  ExpectError(Run({"--attention", "exact", "--scale", "1e38"}), 1, "at scale 1e+38");
  if (ListGpus().empty()) ExpectError(Run({"--device", "cuda"}), 1, "cuda");
  ExpectError(Run({"--device", "cuda:x"}), 2, "--device: given 'cuda:x', expected cuda:N");
  ExpectError(Run({"--type", "f64"}), 2, "--type: unknown name 'f64'");
  ExpectError(Run({"--device", "gpu"}), 2, "unknown name 'gpu'");
  Save("short.npy", {2, 8, 8});
  ExpectError(Run({"--key-mask", dir_ / "short.npy"}), 1, "key mask");
  const auto with_k = [&](const char* name) {
    return RunTool({"attend", "--q", dir_ / "q.npy", "--k", dir_ / name, "--v", dir_ / "v.npy",
                    "--out", dir_ / "out.npy"});
  };
  ExpectError(with_k("short.npy"), 1, "as many values as keys");
  Save("heads.npy", {3, 9, 8});
  ExpectError(with_k("heads.npy"), 1, "heads");
  Save("dim.npy", {2, 9, 7});
  ExpectError(with_k("dim.npy"), 1, "dim 8");
  ExpectError(with_k("missing.npy"), 1, "missing.npy");
}

TEST_F(AttendCommand, WritesGradients) {
  const Tensor grad_out = Save("g.npy", {4, 9, 5});
  for (const bool reference : {false, true}) {
    const ToolResult result =
        Run({"--features", "12", "--causal", "--device", reference ? "reference" : "cpu",
             "--grad-out", dir_ / "g.npy", "--grad-q", dir_ / "gq.npy", "--grad-k", dir_ / "gk.npy",
             "--grad-v", dir_ / "gv.npy", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(nlohmann::json::parse(result.out).contains("backward_seconds"));
    const AttentionOptions options{
        .causal = true, .reference = reference, .features = {.features = 12}};
    const Context context;
    const Tensor out = Attend(q_, k_, v_, options, context);
    const AttentionGradients want = AttendBackward({q_, k_, v_, out, grad_out}, options, context);
    const auto same = [&](const char* name, const Tensor& gradient) {
      const Tensor got = ReadNpy(dir_ / name);
      ASSERT_EQ(got.shape(), gradient.shape());
      ASSERT_EQ(got.type(), gradient.type());
      EXPECT_EQ(
          std::memcmp(got.view().data(), gradient.view().data(), static_cast<size_t>(got.Bytes())),
          0)
          << name;
    };
    same("gq.npy", want.q);
    same("gk.npy", want.k);
    same("gv.npy", want.v);
  }
}

TEST_F(AttendCommand, ForgetsAndWritesItsGradient) {
  const Tensor grad_out = Save("g.npy", {4, 9, 5});
  Tensor decay({4, 9}, DataType::kF64);
  for (int64_t i = 0; i < 36; ++i) decay.Data<double>()[i] = -0.1 * static_cast<double>(i % 5);
  WriteNpy(dir_ / "d.npy", decay);
  ExpectError(Run({"--grad-out", dir_ / "g.npy", "--grad-log-decay", dir_ / "gd.npy"}), 2,
              "given without --log-decay");
  ExpectError(Run({"--device", "reference", "--log-decay", dir_ / "d.npy"}), 2,
              "expected causal linear attention");
  for (const bool reference : {true, false}) {
    const ToolResult result = Run({"--causal", "--device", reference ? "reference" : "cpu",
                                   "--features", "12", "--log-decay", dir_ / "d.npy", "--grad-out",
                                   dir_ / "g.npy", "--grad-log-decay", dir_ / "gd.npy"});
    ASSERT_EQ(result.status, 0) << result.err;
    AttentionOptions options{.causal = true, .reference = reference, .features = {.features = 12}};
    options.log_decay = decay;
    const Context context;
    const Tensor out = Attend(q_, k_, v_, options, context);
    const Tensor want = AttendBackward({q_, k_, v_, out, grad_out}, options, context).log_decay;
    const Tensor got = ReadNpy(dir_ / "gd.npy");
    ASSERT_EQ(got.shape(), want.shape());
    EXPECT_EQ(LargestDifference(got, want), 0);
    EXPECT_EQ(LargestDifference(ReadNpy(dir_ / "out.npy"), out), 0);
    EXPECT_GT(LargestAbsolute(want), 0.01);
  }
}

TEST_F(AttendCommand, RefusesGradientsThatDoNotFit) {
  Save("g.npy", {4, 9, 6});
  ExpectError(Run({"--grad-out", dir_ / "g.npy", "--grad-q", dir_ / "out_gq.npy"}), 1,
              "grad_out: given shape [4, 9, 6], expected [4, 9, 5]");
  ExpectError(Run({"--grad-q", dir_ / "out_gq.npy"}), 2, "give --grad-out");
  ExpectError(Run({"--grad-out", dir_ / "g.npy"}), 2, "nothing would be written");
  ExpectError(
      Run({"--grad-out", dir_ / "g.npy", "--grad-q", dir_ / "x.npy", "--grad-k", dir_ / "x.npy"}),
      2, "x.npy");
  ExpectError(
      Run({"--compat", "jax", "--grad-out", dir_ / "g.npy", "--grad-v", dir_ / "out_gv.npy"}), 2,
      "compat");
}

// What a mask hides may hold anything.
TEST_F(AttendCommand, MaskedKeysMayBeNaN) {
  Tensor k = Save("k2.npy", {3, 20, 6});
  for (int64_t head = 0; head < 3; ++head) k.Data<float>()[(head * 20 + 4) * 6] = std::nanf("");
  WriteNpy(dir_ / "k2.npy", k);
  Save("q2.npy", {3, 20, 6});
  Save("v2.npy", {3, 20, 6});
  Tensor mask({20});
  for (int64_t i = 0; i < 20; ++i) mask.Data<float>()[i] = i == 4 ? 0 : 1;
  WriteNpy(dir_ / "m2.npy", mask);
  std::vector<std::string> words = {"attend",        "--q",           dir_ / "q2.npy",
                                    "--k",           dir_ / "k2.npy", "--v",
                                    dir_ / "v2.npy", "--out",         dir_ / "o2.npy"};
  ExpectError(RunTool(words), 1, "NaN");
  words.insert(words.end(), {"--key-mask", dir_ / "m2.npy"});
  const ToolResult result = RunTool(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(AllFinite(ReadNpy(dir_ / "o2.npy")));
}

// A pipe is opened once: its reader must not see an end before there is anything to read.
TEST_F(AttendCommand, WritesIntoPipes) {
  const std::string rows = dir_ / "q2.npy", pipe = dir_ / "pipe";
  Save("q2.npy", {3, 2000, 6});
  const ToolResult result = RunToolUnder(
      {"/bin/bash", "-c",
       "p=\"${@: -1}\"; mkfifo \"$p\"; cat \"$p\" > \"$p.npy\" & \"$0\" \"$@\" && wait"},
      {"attend", "--q", rows, "--k", rows, "--v", rows, "--out", pipe});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(ReadNpy(pipe + ".npy").shape(), Shape({3, 2000, 6}));
}

}  // namespace
}  // namespace favor
