// What tests of models in use begin with: text, proteins and short trainings on them.
#ifndef FAVOR_TESTS_CLI_GENERATE_FIXTURE_H_
#define FAVOR_TESTS_CLI_GENERATE_FIXTURE_H_

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli/train_fixture.h"

namespace favor {

inline std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class GenerateCommand : public ToolFixture {
 protected:
  GenerateCommand() {
    std::string text, proteins;
    for (int i = 0; i < 600; ++i) text += "line " + std::to_string(i * 37 % 100) + " of text\n";
    for (int i = 0; i < 200; ++i) {
      proteins += ">p" + std::to_string(i) + " a protein\nMK";
      for (int j = 0; j < 10 + i % 7; ++j) proteins += "ACDEFGHIKLMNPQRSTVWY"[(i * 7 + j * j) % 20];
      proteins += "\n";
    }
    WriteText(text_, text);
    WriteText(proteins_, proteins);
  }

  ToolResult Train(const std::string& data, const std::string& out,
                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "train", "--data",       data, "--out",          out,  "--width",     "16",     "--heads",
        "2",     "--layers",     "1",  "--ff",           "24", "--features",  "16",     "--steps",
        "6",     "--batch",      "4",  "--length",       "24", "--positions", "rotary", "--warmup",
        "2",     "--eval-every", "3",  "--eval-batches", "2",  "--threads",   "1",      "--quiet"};
    for (size_t i = 0; i < more.size();
         ++i) {  // an option that is already there gets the new value
      const auto found = std::find(words.begin(), words.end(), more[i]);
      if (!more[i].starts_with("--") || found == words.end()) {
        words.push_back(more[i]);
      } else {
        found[1] = more[++i];
      }
    }
    return RunTool(words);
  }

  std::string text_ = dir_ / "book.txt", proteins_ = dir_ / "some.fasta", run_ = dir_ / "run";
};

}  // namespace favor

#endif  // FAVOR_TESTS_CLI_GENERATE_FIXTURE_H_
