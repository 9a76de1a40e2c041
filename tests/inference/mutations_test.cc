#include "favor/mutations.h"

#include <gtest/gtest.h>

#include "tests/inference/small_trained.h"

namespace favor {
namespace {

class MutationsTest : public testing::Test {
 protected:
  MutationsTest() { WriteText(dir_ / "p.fasta", SomeProteins()); }

  TrainedModel Trained(bool causal) const {
    RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
    run.task = causal ? Task::kCausal : Task::kMasked;
    run.model.causal = causal;
    return TrainSmall(run, dir_);
  }

  Record Wild(const TrainedModel& trained, const std::string& letters) const {
    return {.name = "w", .tokens = trained.vocabulary->Encode(letters, "test")};
  }

  void ExpectRefused(const TrainedModel& trained, const Record& wild_type, const std::string& text,
                     const std::string& says) const {
    try {
      ParseVariants(text, trained, wild_type);
      ADD_FAILURE() << text << " accepted, expected: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }

  TempDir dir_;
  const Context context_{ContextOptions{.threads = 1}};
};

TEST_F(MutationsTest, VariantsAreRead) {
  const TrainedModel trained = Trained(true);
  const Record wild = Wild(trained, "MKTAY");
  const std::vector<Variant> variants = ParseVariants("M1A,k2r:Y5W", trained, wild);
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[0].name, "M1A");
  ASSERT_EQ(variants[0].substitutions.size(), 1u);
  EXPECT_EQ(variants[0].substitutions[0].place, 0);
  EXPECT_EQ(variants[0].substitutions[0].to, trained.vocabulary->Encode("A", "test")[0]);
  ASSERT_EQ(variants[1].substitutions.size(), 2u);
  EXPECT_EQ(variants[1].substitutions[1].place, 4);
  for (const std::string text : {"", "M1", "MA", "M1A,", "1A", "M1.5A", "M+1A", "M1AA"})
    ExpectRefused(trained, wild, text, "expected a letter of the alphabet");
  ExpectRefused(trained, wild, "M0A", "positions 1 to 5");
  ExpectRefused(trained, wild, "M6A", "positions 1 to 5");
  ExpectRefused(trained, wild, "M99999999999999999999A", "expected a letter of the alphabet");
  ExpectRefused(trained, wild, "K1A", "position 1 of 'w' is M");
  ExpectRefused(trained, wild, "M1M", "expected another letter");
  ExpectRefused(trained, wild, "M1A:M1C", "expected different positions");
  ExpectRefused(trained, wild, "M1A,M1J", "given 'M1J'");
}

// Letters that stand for several are replaced, but replace none.
TEST_F(MutationsTest, AllSubstitutionsOfTheTwentyAminoAcids) {
  const TrainedModel trained = Trained(true);
  const std::vector<Variant> variants = AllSubstitutions(trained, Wild(trained, "YXA"));
  ASSERT_EQ(variants.size(), 19u + 20u + 19u);
  EXPECT_EQ(variants.front().name, "Y1A");
  EXPECT_EQ(variants[18].name, "Y1W");
  EXPECT_EQ(variants[19].name, "X2A");
  EXPECT_EQ(variants.back().name, "A3Y");
}

TEST_F(MutationsTest, OfADecoderAreDifferencesOfLogLikelihoods) {
  const TrainedModel trained = Trained(true);
  const std::string letters = RandomSequence(5, 8);
  const Record wild = Wild(trained, letters);
  std::vector<Variant> variants = AllSubstitutions(trained, wild);
  variants.push_back({.name = "two", .substitutions = {{1, 3}, {6, 4}}});
  const std::vector<double> effects = VariantEffects(trained, wild, variants, {}, context_);
  ASSERT_EQ(effects.size(), variants.size());
  const double base = LikelihoodOf(trained, wild, {}, context_).sum;
  for (const size_t i : {size_t{0}, size_t{30}, variants.size() - 1}) {
    Record mutant = wild;
    for (const Substitution& substitution : variants[i].substitutions)
      mutant.tokens[static_cast<size_t>(substitution.place)] = substitution.to;
    EXPECT_NEAR(effects[i], LikelihoodOf(trained, mutant, {}, context_).sum - base, 1e-5) << i;
  }
}

// Logits where the letters of a variant are hidden; pieces of ten letters know nothing of each
// other.
TEST_F(MutationsTest, OfAnEncoderByHand) {
  const TrainedModel trained = Trained(false);
  const std::string letters = RandomSequence(6, 14);
  const Record wild = Wild(trained, letters);
  const std::vector<Variant> variants = {{.name = "one", .substitutions = {{3, 7}}},
                                         {.name = "other", .substitutions = {{3, 9}}},
                                         {.name = "two", .substitutions = {{8, 2}, {3, 5}}},
                                         {.name = "both", .substitutions = {{12, 1}, {9, 0}}},
                                         {.name = "first", .substitutions = {{10, 5}}}};
  for (const Variant& variant : variants) {
    for (const Substitution& substitution : variant.substitutions)
      ASSERT_NE(wild.tokens[static_cast<size_t>(substitution.place)], substitution.to);
  }
  const auto by_hand = [&](const std::vector<Substitution>& substitutions) {
    double effect = 0;
    for (const Substitution& substitution : substitutions) {
      const int64_t first = substitution.place / 10 * 10;
      Tokens row(wild.tokens.begin() + first,
                 wild.tokens.begin() + std::min<int64_t>(first + 10, 14));
      for (const Substitution& hidden : substitutions) {
        if (hidden.place / 10 * 10 == first)
          row[static_cast<size_t>(hidden.place - first)] = kHidden;
      }
      const int64_t at = substitution.place - first;
      effect += LogProbabilityAt(trained.model, row, at, substitution.to, context_) -
                LogProbabilityAt(trained.model, row, at,
                                 wild.tokens[static_cast<size_t>(substitution.place)], context_);
    }
    return effect;
  };
  for (const int64_t batch : {1, 2, 50}) {
    int64_t last = 0;
    const std::vector<double> effects =
        VariantEffects(trained, wild, variants, {.batch = batch, .layout = Layout::kCrop}, context_,
                       [&](int64_t done) { last = done; });
    ASSERT_EQ(effects.size(), variants.size());
    EXPECT_EQ(last, 5);
    for (size_t i = 0; i < variants.size(); ++i)
      EXPECT_NEAR(effects[i], by_hand(variants[i].substitutions), 1e-4) << variants[i].name;
  }
}

TEST_F(MutationsTest, BeyondWhatIsReadAreRefused) {
  const std::vector<Variant> last = {{.name = "X", .substitutions = {{10, 1}}}};
  for (const bool causal : {true, false}) {
    const TrainedModel trained = Trained(causal);
    const Record wild = Wild(trained, RandomSequence(6, 11));
    EXPECT_THROW(VariantEffects(trained, wild, last, {}, context_), Error);
    EXPECT_NO_THROW(VariantEffects(trained, wild, last, {.length = 11}, context_));
    EXPECT_NO_THROW(VariantEffects(trained, wild, last, {.layout = Layout::kCrop}, context_));
  }
}

TEST_F(MutationsTest, OneRecordIsWanted) {
  const TrainedModel trained = Trained(true);
  const auto reader = OpenRecordsFor(trained, dir_ / "p.fasta");
  EXPECT_THROW(ReadOneRecord(*reader), Error);
  EXPECT_THROW(ReadOneRecord(*reader, "nobody"), Error);
  EXPECT_EQ(ReadOneRecord(*reader, "p7").tokens.size(), 10u);
  WriteText(dir_ / "one.fasta", ">x\nMKT\n");
  EXPECT_EQ(ReadOneRecord(*OpenRecordsFor(trained, dir_ / "one.fasta")).name, "x");
}

TEST_F(MutationsTest, AreOfLettersOnly) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i * i) + " of text\n";
  WriteText(dir_ / "t.txt", text);
  const TrainedModel trained = TrainSmall(SmallTrainedConfig(dir_ / "t.txt"), dir_);
  EXPECT_THROW(AllSubstitutions(trained, {.name = "x", .tokens = {'a'}}), Error);
}

}  // namespace
}  // namespace favor
