#include "core/error_text.h"

#include <gtest/gtest.h>

#include <array>

namespace favor {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"positive", "oprf", "orthogonal", "relu"};

TEST(Suggest, NamesTheNearestOrAll) {
  EXPECT_EQ(Suggest("positve", kNames), " (did you mean 'positive'?)");
  EXPECT_EQ(Suggest("orth", kNames), " (did you mean 'orthogonal'?)");
  EXPECT_EQ(Suggest("oprf2", kNames), " (did you mean 'oprf'?)");
  EXPECT_EQ(Suggest("something", kNames), " (one of: positive, oprf, orthogonal, relu)");
  EXPECT_EQ(Suggest("", kNames), " (one of: positive, oprf, orthogonal, relu)");
  EXPECT_EQ(Suggest("rleu", kNames), " (did you mean 'relu'?)");
  EXPECT_EQ(Suggest("rule", kNames), " (one of: positive, oprf, orthogonal, relu)");
  EXPECT_EQ(Suggest("x", {}), "");
}

TEST(Printable, KeepsALineALine) {
  EXPECT_EQ(Printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(Printable("größe.npy"), "größe.npy");
  EXPECT_LT(Printable(std::string(1000, 'x')).size(), 100u);
  // Cut between characters: 80 of them, and the dots.
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ö";
  EXPECT_EQ(Printable(umlauts), umlauts.substr(0, 160) + "…");
}

TEST(Error, SaysWhoAndWhat) {
  try {
    Throw(ErrorCode::kInvalidData, "omega", "given {}, expected {}", 1, 2);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "omega: given 1, expected 2");
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
  }
}

}  // namespace
}  // namespace favor
