// The structure of the sources: an include may point only downwards, and public headers include
// nothing that users do not have.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

namespace favor {
namespace {

namespace fs = std::filesystem;

// A folder may include only lower floors and itself; folders on one floor do not include each
// other.
const std::map<std::string, int> kFloor = {
    {"core", 0},       {"io", 1},        {"data", 2},        {"kernels", 2},      {"features", 3},
    {"polynomial", 3}, {"attention", 4}, {"layers", 5},      {"models", 6},       {"train", 7},
    {"inference", 8},  {"reports", 9},   {"benchmarks", 10}, {"experiments", 11}, {"cli", 12}};

// A public header belongs to the floor that implements it.
const std::map<std::string, int> kPublicFloor = {
    {"error", 0},      {"tensor", 0},        {"context", 0},    {"random", 0},     {"version", 0},
    {"names", 0},      {"activation", 2},    {"npy", 1},        {"vocabulary", 2}, {"data", 2},
    {"maps", 2},       {"features", 3},      {"polynomial", 3}, {"attention", 4},  {"state", 4},
    {"score", 0},      {"model", 6},         {"generate", 6},   {"train", 7},      {"records", 2},
    {"likelihood", 8}, {"mutations", 8},     {"embedding", 8},  {"prediction", 8}, {"favor", 13},
    {"linearised", 3}, {"taylor_series", 3}, {"local_mask", 3}};

template <class Visit>
void ForEachInclude(const fs::path& folder, const Visit& visit) {
  const std::regex include(R"re(^\s*#\s*include\s+(["<])([^">]+)[">])re");
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh")
      continue;
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
      if (std::regex_search(line, match, include))
        visit(entry.path(), match[1] == "<", match[2].str());
    }
  }
}

TEST(House, IncludesPointDownwards) {
  const fs::path src = fs::path(FAVOR_SOURCE_DIR) / "src";
  int seen = 0;
  ForEachInclude(src, [&](const fs::path& file, bool system, const std::string& target) {
    const std::string from = fs::relative(file, src).begin()->string();
    ASSERT_TRUE(kFloor.contains(from))
        << file << " is on no floor: add it to this test and to docs/architecture.md";
    const std::string to = *fs::path(target).begin();
    if (to == "favor") {
      const std::string header = fs::path(target).stem().string();
      ASSERT_TRUE(kPublicFloor.contains(header)) << target << " is on no floor";
      EXPECT_LE(kPublicFloor.at(header), kFloor.at(from)) << file << " includes " << target;
    }
    if (system || !kFloor.contains(to)) return;
    ++seen;
    EXPECT_TRUE(from == to || kFloor.at(to) < kFloor.at(from)) << file << " includes " << target;
  });
  EXPECT_GT(seen, 50);
}

TEST(House, PublicHeadersIncludeOnlyTheStandardLibraryAndEachOther) {
  const fs::path include = fs::path(FAVOR_SOURCE_DIR) / "include";
  int seen = 0;
  ForEachInclude(include, [&](const fs::path& file, bool system, const std::string& target) {
    ++seen;
    if (!system) {
      EXPECT_LE(kPublicFloor.at(fs::path(target).stem().string()),
                kPublicFloor.at(file.stem().string()))
          << file << " includes " << target;
    }
    if (system) {
      EXPECT_EQ(target.find_first_of("./"), std::string::npos)
          << file << " includes <" << target << ">";
    } else {
      EXPECT_TRUE(target.starts_with("favor/")) << file << " includes \"" << target << "\"";
    }
  });
  EXPECT_GT(seen, 10);
}

// An operation is a header with its arguments and the choice of a backend; implementations are
// files of the same stem. What several kernels of a backend share has a header next to it.
TEST(House, KernelsHaveTheSameNameEverywhere) {
  const fs::path kernels = fs::path(FAVOR_SOURCE_DIR) / "src" / "kernels";
  for (const char* backend : {"reference", "cpu", "cuda"}) {
    for (const auto& entry : fs::directory_iterator(kernels / backend)) {
      const fs::path& path = entry.path();
      if (entry.is_directory() || path.extension() == ".h" || path.extension() == ".cuh") continue;
      EXPECT_TRUE(fs::exists(kernels / path.stem().concat(".h")) ||
                  fs::exists(fs::path(path).replace_extension(".h")))
          << path;
    }
  }
}

// Which implementation runs is decided in one place, the operation's header; all other code calls
// the operation.
TEST(House, BackendsAreChosenInsideKernels) {
  const fs::path src = fs::path(FAVOR_SOURCE_DIR) / "src";
  ForEachInclude(src, [&](const fs::path& file, bool, const std::string& target) {
    if (fs::relative(file, src).begin()->string() == "kernels") return;
    for (const char* backend : {"kernels/reference/", "kernels/cpu/", "kernels/cuda/"})
      EXPECT_FALSE(target.starts_with(backend)) << file << " includes " << target;
  });
}

// Without a stand-in, a build without CUDA would not link.
TEST(House, EveryCudaKernelHasAStandInWithoutCuda) {
  const fs::path kernels = fs::path(FAVOR_SOURCE_DIR) / "src" / "kernels";
  std::ifstream file(kernels / "without_cuda.cc");
  const std::string stand_ins((std::istreambuf_iterator<char>(file)), {});
  for (const auto& entry : fs::directory_iterator(kernels / "cuda")) {
    if (entry.path().extension() != ".cu") continue;
    const std::string header = "kernels/" + entry.path().stem().concat(".h").string();
    EXPECT_NE(stand_ins.find(header), std::string::npos) << entry.path();
  }
}

TEST(House, FilesAreShort) {
  for (const char* top : {"src", "include"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(FAVOR_SOURCE_DIR) / top)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      int lines = 0;
      for (std::string line; std::getline(file, line);) ++lines;
      EXPECT_LE(lines, 450) << entry.path();
    }
  }
}

}  // namespace
}  // namespace favor
