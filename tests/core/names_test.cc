// Every enum that has names: from value to name, and back.
#include "favor/names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "favor/error.h"
#include "favor/favor.h"

namespace favor {
namespace {

template <class Enum>
class NamesOfEnum : public testing::Test {};

using Enums = testing::Types<Activation, Alphabet, Compat, DataKind, KernelFamily, Layout, Masking,
                             Norm, OmegaNorm, Positions, Schedule, Split, SplitRule, Task>;
TYPED_TEST_SUITE(NamesOfEnum, Enums);

TYPED_TEST(NamesOfEnum, ComeBackAsTheirValues) {
  const auto names = Names<TypeParam>();
  const std::set<std::string_view> different(names.begin(), names.end());
  EXPECT_EQ(different.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const auto value = static_cast<TypeParam>(i);
    EXPECT_EQ(Name(value), names[i]);
    EXPECT_EQ(Named<TypeParam>(names[i], "test"), value);
  }
}

TYPED_TEST(NamesOfEnum, TheNearestIsSuggested) {
  for (const std::string_view name : Names<TypeParam>()) {
    try {
      Named<TypeParam>(std::string(name) + "x", "--option");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
      EXPECT_EQ(error.what(), "--option: unknown name '" + std::string(name) +
                                  "x' (did you mean '" + std::string(name) + "'?)");
    }
  }
}

// The tables are in the order of the values.
TEST(Names, AreThoseOfTheirValues) {
  EXPECT_EQ(Name(Positions::kLearned), "learned");
  EXPECT_EQ(Name(Positions::kNone), "none");
  EXPECT_EQ(Name(Norm::kPost), "post");
  EXPECT_EQ(Name(Activation::kRelu), "relu");
  EXPECT_EQ(Name(Schedule::kConstant), "constant");
  EXPECT_EQ(Name(Task::kClassify), "classify");
  EXPECT_EQ(Name(DataKind::kPictures), "pictures");
  EXPECT_EQ(Name(Layout::kJoin), "join");
  EXPECT_EQ(Name(SplitRule::kBlocks), "blocks");
  EXPECT_EQ(Name(Alphabet::kDna), "dna");
  EXPECT_EQ(Name(Split::kAll), "all");
  EXPECT_EQ(Name(Masking::kKept), "kept");
  EXPECT_EQ(Name(OmegaNorm::kSqrtD), "sqrt-d");
  EXPECT_EQ(Name(KernelFamily::kGeneralized), "generalized");
  EXPECT_EQ(Name(Compat::kTorch), "torch");
}

}  // namespace
}  // namespace favor
