// favor generate with models of pixels.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/png.h"
#include "models/checkpoint.h"
#include "models/network.h"
#include "tests/cli/generate_fixture.h"
#include "tests/npy_file.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

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

}  // namespace
}  // namespace favor
