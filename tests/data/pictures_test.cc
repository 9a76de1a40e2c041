// Pictures as sequences: order of pixels, targets, splits, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "favor/data.h"
#include "favor/error.h"
#include "favor/random.h"
#include "tests/npy_file.h"
#include "tests/png_file.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

std::vector<uint8_t> Noise(uint64_t number, size_t count) {
  const RandomStream random = RandomStream(1, "pixels").Child(number);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(random.Bits(i)));
  return bytes;
}

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::vector<int32_t> Row(const std::vector<int32_t>& values, int64_t row, int64_t length) {
  return {values.begin() + row * length, values.begin() + (row + 1) * length};
}

class Pictures : public testing::Test {
 protected:
  // An array of random pictures.
  std::string Array(int64_t count, const std::string& shape, size_t pixels) {
    std::string data;
    for (int64_t i = 0; i < count; ++i) data += Text(Noise(static_cast<uint64_t>(i), pixels));
    WriteText(dir_ / "a.npy", NpyFile("|u1", shape, data));
    return dir_ / "a.npy";
  }

  void ExpectRefused(const std::string& path, const std::string& says,
                     const DataOptions& options = {}) {
    try {
      OpenData(path, options);
      FAIL() << "accepted, expected: " << says;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(says), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }

  TempDir dir_;
  std::string folder_ = dir_ / "folder";
};

// The targets of "<begin> a b c" are "a b c d": every pixel once, and nothing after the last.
TEST_F(Pictures, PixelsFollowABeginToken) {
  const auto pixels = Noise(1, 2 * 3 * 3);
  WriteText(dir_ / "a.png", Png(2, 3, pixels, {.color = PNG_COLOR_TYPE_RGB}));
  const auto data = OpenData(dir_ / "a.png", {.format = {.valid = 0, .test = 0}});
  EXPECT_EQ(data->vocab(), 259);
  EXPECT_EQ(data->Unit(), "dimension");
  EXPECT_EQ(data->Shape(), "2 × 3 × 3");
  EXPECT_EQ(data->vocabulary()->name(), "pixels");
  EXPECT_EQ(data->Summary(Split::kTrain).lengths, (std::map<int64_t, int64_t>{{18, 1}}));
  const Batch batch = data->EvalBatch(Split::kTrain, {.index = 0, .batch = 4, .length = 18});
  ASSERT_EQ(batch.batch, 1);
  std::vector<int32_t> targets(pixels.begin(), pixels.end()), tokens = targets;
  EXPECT_EQ(batch.targets, targets);
  tokens.insert(tokens.begin(), *data->vocabulary()->special().begin);
  tokens.pop_back();
  EXPECT_EQ(batch.tokens, tokens);
  EXPECT_TRUE(batch.mask.empty());
}

TEST_F(Pictures, MaskedPixelsAreAskedFor) {
  const auto data = OpenData(Array(200, "(200, 10, 10)", 100), {.task = Task::kMasked});
  const int64_t length = data->Length(0);
  ASSERT_EQ(length, 100);
  const Batch batch = data->TrainBatch({.index = 0, .batch = 50, .length = length});
  double asked = 0;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_TRUE(batch.tokens[i] < 256 || batch.tokens[i] == 257);
    EXPECT_EQ(batch.mask[i], 1);
    asked += batch.targets[i] != kNoTarget ? 1 : 0;
  }
  EXPECT_NEAR(asked / 5000, 0.15, 5 * 0.00505);  // five standard errors
}

// A folder, in order of names, holds the same data as an array.
TEST_F(Pictures, FoldersAndArraysAreTheSame) {
  const std::string path = Array(12, "(12, 4, 5)", 20);
  std::filesystem::create_directory(folder_);
  for (uint64_t i = 12; i-- > 0;) {
    std::string name = "/";
    name += static_cast<char>('a' + i);
    WriteText(folder_ + name + (i % 2 == 0 ? ".png" : ".PNG"), Png(4, 5, Noise(i, 20)));
  }
  const DataOptions options{.format = {.valid = 0.3, .test = 0.3}};
  const auto array = OpenData(path, options), folder = OpenData(folder_, options);
  EXPECT_EQ(array->Fingerprint(), folder->Fingerprint());
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const BatchRequest all{.index = 0, .batch = 12, .length = 20};
    EXPECT_EQ(array->EvalBatch(split, all).targets, folder->EvalBatch(split, all).targets);
  }
  // Fingerprints of the same pixels in another shape differ.
  EXPECT_NE(OpenData(Array(12, "(12, 5, 4)", 20), options)->Fingerprint(), array->Fingerprint());
  EXPECT_EQ(OpenData(Array(12, "(12, 4, 5, 1)", 20), options)->Fingerprint(), array->Fingerprint());
}

TEST_F(Pictures, ChannelsOfAPixelAreNeighbours) {
  WriteText(dir_ / "a.npy",
            NpyFile("|u1", "(1, 1, 2, 3)", std::string("\x01\x02\x03\xfd\xfe\xff", 6)));
  const auto data = OpenData(dir_ / "a.npy", {.format = {.valid = 0, .test = 0}});
  EXPECT_EQ(data->EvalBatch(Split::kTrain, {.index = 0, .batch = 1, .length = 6}).targets,
            (std::vector<int32_t>{1, 2, 3, 253, 254, 255}));
}

// 2000 pictures, each of which occurs twice: pairs stay together.
TEST_F(Pictures, SplitsGoByWhatPicturesHold) {
  std::string pictures;
  for (uint64_t i = 0; i < 2000; ++i) pictures += Text(Noise(i, 4));
  WriteText(dir_ / "a.npy", NpyFile("|u1", "(4000, 2, 2)", pictures + pictures));
  const auto data = OpenData(dir_ / "a.npy", {.format = {.valid = 0.1, .test = 0.2}});
  int64_t total = 0;
  std::set<std::vector<int32_t>> everywhere;
  size_t apart = 0;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const int64_t records = data->Summary(split).records;
    total += records;
    const Batch batch = data->EvalBatch(split, {.index = 0, .batch = 4000, .length = 4});
    std::set<std::vector<int32_t>> own;
    for (int64_t row = 0; row < batch.batch; ++row) own.insert(Row(batch.targets, row, 4));
    apart += own.size();
    everywhere.insert(own.begin(), own.end());
  }
  EXPECT_EQ(total, 4000);
  EXPECT_EQ(apart, everywhere.size()) << "a picture is in two splits";
  // Shares of 2000 draws, five standard errors: 5 √(p (1 − p) / 2000).
  EXPECT_NEAR(static_cast<double>(data->Summary(Split::kValid).records) / 4000, 0.1, 0.034);
  EXPECT_NEAR(static_cast<double>(data->Summary(Split::kTest).records) / 4000, 0.2, 0.045);
}

TEST_F(Pictures, HaveOneLength) {
  const auto data = OpenData(Array(100, "(100, 3, 4)", 12), {});
  EXPECT_EQ(data->Length(0), 12);
  EXPECT_EQ(data->Length(12), 12);
  EXPECT_THROW(data->Length(11), Error);
  EXPECT_THROW(data->TrainBatch({.index = 0, .batch = 1, .length = 13}), Error);
  const auto one = OpenData(Array(1, "(1, 3, 4)", 12), {});
  EXPECT_THROW(one->Length(0), Error) << "nothing to validate with";
}

TEST_F(Pictures, RefusesFoldersThatHoldSomethingElse) {
  ExpectRefused(dir_ / "none.png", "none.png");
  std::filesystem::create_directory(folder_);
  ExpectRefused(folder_, "folder: given an empty folder, expected files");
  WriteText(folder_ + "/b.png", Png(2, 3, Noise(1, 6)));
  WriteText(folder_ + "/notes.txt", "mine");
  ExpectRefused(folder_, "folder: holds 'notes.txt', expected only PNG files");
  std::filesystem::remove(folder_ + "/notes.txt");
  std::filesystem::create_directory(folder_ + "/more.png");
  ExpectRefused(folder_, "holds the folder 'more.png'");
  std::filesystem::remove(folder_ + "/more.png");
  WriteText(folder_ + "/c.png", Png(3, 2, Noise(1, 6)));
  ExpectRefused(folder_,
                "c.png: given a picture of 3 × 2 × 1 (height, width, channels), "
                "expected 2 × 3 × 1 as in '");
  WriteText(folder_ + "/c.png", Png(2, 3, Noise(1, 18), {.color = PNG_COLOR_TYPE_RGB}));
  ExpectRefused(folder_, "c.png: given a picture of 2 × 3 × 3");
  WriteText(folder_ + "/c.png", Png(2, 3, Noise(1, 12), {.bits = 16}));
  ExpectRefused(folder_, "c.png: has 16 bits per channel, expected 8");
  WriteText(folder_ + "/c.png", "");
  ExpectRefused(folder_, "c.png: given an empty file");
}

TEST_F(Pictures, RefusesArraysThatAreNone) {
  const auto refused = [&](const std::string& descr, const std::string& shape, size_t bytes,
                           const std::string& says) {
    WriteText(dir_ / "a.npy", NpyFile(descr, shape, std::string(bytes, '\1')));
    ExpectRefused(dir_ / "a.npy", says);
  };
  refused("<u2", "(2, 2, 2)", 16, "given integers ('<u2'), expected unsigned bytes");
  refused("<f4", "(1, 2, 2)", 16, "given f32, expected unsigned bytes");
  refused("|u1", "(4, 4)", 16, "given shape [4, 4], expected [pictures, height, width] or");
  refused("|u1", "(2, 2, 2, 2)", 16, "given shape [2, 2, 2, 2]");
  refused("|u1", "(1, 2, 2, 4)", 16, "given shape [1, 2, 2, 4]");
  refused("|u1", "(0, 2, 2)", 0, "at least one picture");
  refused("|u1", "(2, 0, 2)", 0, "at least one picture");
  refused("|u1", "(0, 4611686018427387904, 4611686018427387904)", 0, "");
  refused("|u1", "(2, 2, 2)", 7, "truncated");
  WriteText(dir_ / "a.npy", "text");
  ExpectRefused(dir_ / "a.npy", "a.npy: not an npy file");
  ExpectRefused("/dev/zero", "expected a file", {.format = {.kind = DataKind::kPictures}});
  WriteText(dir_ / "plain", "some text");
  ExpectRefused(dir_ / "plain", "not a PNG file", {.format = {.kind = DataKind::kPictures}});
  ExpectRefused(Array(2, "(2, 2, 2)", 4), "held_out", {.format = {.held_out = "list"}});
}

}  // namespace
}  // namespace favor
