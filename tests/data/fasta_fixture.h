// FASTA files for tests, and the sequences that a Dataset makes of them.
#ifndef FAVOR_TESTS_DATA_FASTA_FIXTURE_H_
#define FAVOR_TESTS_DATA_FASTA_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "favor/data.h"
#include "favor/error.h"
#include "favor/random.h"
#include "tests/temp_dir.h"

namespace favor {

using Tokens = std::vector<int32_t>;

inline std::string RandomSequence(uint64_t number, size_t length) {
  constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWY";
  const RandomStream random = RandomStream(1, "sequences").Child(number);
  std::string letters;
  for (size_t i = 0; i < length; ++i) letters += kLetters[random.Bits(i) % 20];
  return letters;
}

class FastaData : public testing::Test {
 protected:
  std::unique_ptr<Dataset> Open(const std::string& text, const DataOptions& options = {}) {
    WriteText(path_, text);
    return OpenData(path_, options);
  }

  void ExpectRefused(const std::string& text, const std::string& says,
                     const DataOptions& options = {}) {
    try {
      Open(text, options);
      ADD_FAILURE() << "accepted, expected: " << says;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(says), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }

  // The sequences of a split, as letters.
  static std::vector<std::string> Sequences(const Dataset& data, Split split) {
    std::vector<std::string> all;
    const int64_t length = std::max<int64_t>(1, data.Summary(split).Longest());
    for (int64_t i = 0; i < data.Batches(split, 1, length); ++i) {
      const Batch batch = data.EvalBatch(split, {.index = i, .batch = 1, .length = length});
      all.push_back(data.vocabulary()->Decode(batch.tokens));
    }
    return all;
  }

  TempDir dir_;
  std::string path_ = dir_ / "x.fasta";
};

constexpr int32_t kBegin = 25, kEnd = 26, kHidden = 27, kPadding = 28;
inline const DataFormat kAllToTrain{.valid = 0, .test = 0};

using Row = std::pair<Tokens, Tokens>;  // tokens and targets of a sequence

inline std::multiset<Row> Rows(const Batch& batch) {
  std::multiset<Row> rows;
  const auto length = static_cast<std::ptrdiff_t>(batch.length);
  for (std::ptrdiff_t at = 0; at < std::ssize(batch.tokens); at += length) {
    rows.insert({Tokens(batch.tokens.begin() + at, batch.tokens.begin() + at + length),
                 Tokens(batch.targets.begin() + at, batch.targets.begin() + at + length)});
  }
  return rows;
}

}  // namespace favor

#endif  // FAVOR_TESTS_DATA_FASTA_FIXTURE_H_
