// A folder with small arrays in which commands run, and what an error must look like.
#ifndef FAVOR_TESTS_CLI_TOOL_FIXTURE_H_
#define FAVOR_TESTS_CLI_TOOL_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "favor/favor.h"
#include "tests/cli/run_tool.h"
#include "tests/temp_dir.h"

namespace favor {

class ToolFixture : public testing::Test {
 protected:
  // Standard normal values; `name` decides which.
  Tensor Save(const std::string& name, const Shape& shape) const {
    Tensor tensor(shape);
    std::vector<double> values(static_cast<size_t>(shape.Elements()));
    RandomStream(1, name).FillNormal(0, values);
    std::copy(values.begin(), values.end(), tensor.Data<float>());
    WriteNpy(dir_ / name, tensor);
    return tensor;
  }

  // One line on stderr, nothing on stdout, no output (files named out*) and nothing temporary.
  void ExpectError(const ToolResult& result, int status, const std::string& says) const {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.err.rfind("favor: error: ", 0), 0u) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      EXPECT_EQ(entry.path().filename().string().find("out"), std::string::npos)
          << "left behind: " << entry.path();
    }
  }

  TempDir dir_;
};

}  // namespace favor

#endif  // FAVOR_TESTS_CLI_TOOL_FIXTURE_H_
