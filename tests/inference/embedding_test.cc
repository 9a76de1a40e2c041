#include "favor/embedding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "favor/likelihood.h"
#include "tests/inference/small_trained.h"

namespace favor {
namespace {

class EmbeddingTest : public testing::Test {
 protected:
  EmbeddingTest() { WriteText(dir_ / "p.fasta", SomeProteins()); }

  TrainedModel Trained(bool causal = true) const {
    RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
    run.task = causal ? Task::kCausal : Task::kMasked;
    run.model.causal = causal;
    return TrainSmall(run, dir_);
  }

  std::vector<Embedding> Of(const TrainedModel& trained, const std::string& source,
                            const EmbedOptions& options) const {
    const auto reader = OpenRecordsFor(trained, source);
    std::vector<Embedding> all;
    Embed(trained, *reader, options, context_, [&](const Embedding& embedding) {
      all.push_back({embedding.record, Tensor(embedding.rows.shape())});
      Copy(embedding.rows.view(), all.back().rows.view());
    });
    return all;
  }

  // Rows that the model makes of one sequence.
  Tensor Hidden(const TrainedModel& trained, const Tokens& tokens, int64_t layer) const {
    return trained.model.Hidden({.batch = 1, .length = std::ssize(tokens), .tokens = tokens}, layer,
                                context_);
  }

  static void ExpectRow(const Tensor& rows, int64_t row, const Tensor& hidden, int64_t at) {
    const int64_t width = rows.shape()[1];
    for (int64_t i = 0; i < width; ++i) {
      EXPECT_NEAR(rows.Data<float>()[row * width + i], hidden.Data<float>()[at * width + i], 1e-5)
          << row << ", " << i;
    }
  }

  TempDir dir_;
  const Context context_{ContextOptions{.threads = 1}};
};

// Logits are the product of the last rows and the embedding, which is tied.
TEST_F(EmbeddingTest, TheLastRowsAreThoseOfPredictions) {
  TrainedModel trained = Trained();
  const Batch batch{.batch = 2, .length = 3, .tokens = {kBegin, 4, 7, kBegin, 2, 2}};
  const Tensor hidden = trained.model.Hidden(batch, 2, context_),
               logits = trained.model.Logits(batch, context_);
  const int64_t vocab = trained.model.config().vocab, width = 16;
  ASSERT_EQ(hidden.shape(), (Shape{2, 3, width}));
  const View weights = trained.model.Parameters().front().value;
  for (const int64_t row : {0, 2, 5}) {
    for (const int64_t token : {0, 11}) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) {
        sum += static_cast<double>(hidden.Data<float>()[row * width + i]) *
               static_cast<double>(weights.Data<float>()[token * width + i]);
      }
      EXPECT_NEAR(logits.Data<float>()[row * vocab + token], sum, 1e-4);
    }
  }
}

// Layer 0 is a token's row of the table times √width; layers differ from each other.
TEST_F(EmbeddingTest, LayersFromTheFirst) {
  TrainedModel trained = Trained();
  const Tensor first = Hidden(trained, {kBegin, 4}, 0), second = Hidden(trained, {kBegin, 4}, 1),
               last = Hidden(trained, {kBegin, 4}, 2);
  const View table = trained.model.Parameters().front().value;
  double difference = 0, more = 0;
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(first.Data<float>()[16 + i], 4 * table.Data<float>()[4 * 16 + i], 1e-5);
    difference += std::abs(second.Data<float>()[16 + i] - first.Data<float>()[16 + i]);
    more += std::abs(last.Data<float>()[16 + i] - second.Data<float>()[16 + i]);
  }
  EXPECT_GT(difference, 0.01);
  EXPECT_GT(more, 0.01);
  EXPECT_THROW(Hidden(trained, {kBegin}, 3), Error);
  EXPECT_THROW(Hidden(trained, {kBegin}, -1), Error);
}

// A decoder reads a start first; its row is left out, here of the first of two pieces.
TEST_F(EmbeddingTest, RowsOfTokensByHand) {
  const TrainedModel trained = Trained();
  const std::string letters = RandomSequence(77, 14);
  const Tokens tokens = trained.vocabulary->Encode(letters, "test");
  WriteText(dir_ / "some.fasta", ">x\n" + letters + "\n>y\nMKT\n");
  for (const int64_t layer : {0, 1, 2}) {
    const std::vector<Embedding> all =
        Of(trained, dir_ / "some.fasta",
           {.layer = layer, .pooling = Pooling::kNone, .layout = Layout::kCrop});
    ASSERT_EQ(all.size(), 2u);
    ASSERT_EQ(all[0].rows.shape(), (Shape{14, 16}));
    ASSERT_EQ(all[1].rows.shape(), (Shape{3, 16}));
    Tokens first = {kBegin};
    first.insert(first.end(), tokens.begin(), tokens.begin() + 10);
    const Tensor one = Hidden(trained, first, layer),
                 two = Hidden(trained, Tokens(tokens.begin() + 10, tokens.end()), layer);
    for (int64_t i = 0; i < 10; ++i) ExpectRow(all[0].rows, i, one, i + 1);
    for (int64_t i = 10; i < 14; ++i) ExpectRow(all[0].rows, i, two, i - 10);
  }
}

TEST_F(EmbeddingTest, PoolsAreOfTheRowsOfTokens) {
  for (const bool causal : {true, false}) {
    const TrainedModel trained = Trained(causal);
    const auto of = [&](Pooling pooling) {
      return Of(trained, dir_ / "p.fasta", {.pooling = pooling, .batch = 3});
    };
    const auto none = of(Pooling::kNone), mean = of(Pooling::kMean), last = of(Pooling::kLast),
               most = of(Pooling::kMaximum);
    ASSERT_EQ(none.size(), 40u);
    for (size_t record = 0; record < 40; ++record) {
      const Tensor& rows = none[record].rows;
      const int64_t count = rows.shape()[0];
      EXPECT_EQ(mean[record].record.name, fmt::format("p{}", record));
      EXPECT_EQ(count, std::min<int64_t>(10, 3 + static_cast<int64_t>(record)));
      for (int64_t i = 0; i < 16; ++i) {
        double sum = 0;
        float largest = -1e30f;
        for (int64_t row = 0; row < count; ++row) {
          const float value = rows.Data<float>()[row * 16 + i];
          sum += static_cast<double>(value);
          largest = std::max(largest, value);
        }
        EXPECT_NEAR(mean[record].rows.Data<float>()[i], sum / static_cast<double>(count), 1e-5);
        EXPECT_EQ(most[record].rows.Data<float>()[i], largest);
        EXPECT_EQ(last[record].rows.Data<float>()[i], rows.Data<float>()[(count - 1) * 16 + i]);
      }
    }
  }
}

TEST_F(EmbeddingTest, EncodersReadWholeRecords) {
  const TrainedModel trained = Trained(false);
  WriteText(dir_ / "one.fasta", ">x\nMKTAY\n>y\nMK\n");
  const std::vector<Embedding> all = Of(trained, dir_ / "one.fasta", {.pooling = Pooling::kNone});
  const Tensor by_hand = Hidden(trained, trained.vocabulary->Encode("MKTAY", "test"), 2);
  for (int64_t i = 0; i < 5; ++i) ExpectRow(all[0].rows, i, by_hand, i);
}

// The line end before a line is read, but is not part of it.
TEST_F(EmbeddingTest, LinesOfText) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i * i) + " of text\n";
  WriteText(dir_ / "t.txt", text);
  const TrainedModel trained = TrainSmall(SmallTrainedConfig(dir_ / "t.txt"), dir_);
  WriteText(dir_ / "new.txt", "ab\n");
  const std::vector<Embedding> all = Of(trained, dir_ / "new.txt", {.pooling = Pooling::kNone});
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].rows.shape(), (Shape{3, 16}));
  const Tensor by_hand = Hidden(trained, {'\n', 'a', 'b', '\n'}, 2);
  for (int64_t i = 0; i < 3; ++i) ExpectRow(all[0].rows, i, by_hand, i + 1);
}

TEST_F(EmbeddingTest, WorkIsCountedBefore) {
  const TrainedModel trained = Trained();
  WriteText(dir_ / "some.fasta", ">x\n" + RandomSequence(1, 12) + "\n>y\nMKT\n");
  const auto count = [&](const EmbedOptions& options) {
    return CountWork(trained, *OpenRecordsFor(trained, dir_ / "some.fasta"), options);
  };
  const EmbedWork pooled = count({});
  EXPECT_EQ(pooled.records, 2);
  EXPECT_EQ(pooled.rows, 2);
  EXPECT_EQ(pooled.tokens, 10 + 3);
  EXPECT_EQ(pooled.clipped, 1);
  EXPECT_EQ(pooled.left_out, 2);
  const EmbedWork each = count({.pooling = Pooling::kNone, .layout = Layout::kCrop});
  EXPECT_EQ(each.rows, 15);
  EXPECT_EQ(each.left_out, 0);
  EXPECT_THROW(count({.layer = 3}), Error);
  EXPECT_EQ(count({.length = 1}).tokens, 2);
}

// With as many learned positions as tokens, a decoder's start takes one of them.
TEST_F(EmbeddingTest, LearnedPositionsLeaveNoRoomForTheStart) {
  RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
  run.model.positions = Positions::kLearned;
  const TrainedModel trained = TrainSmall(run, dir_);
  WriteText(dir_ / "some.fasta", ">x\n" + RandomSequence(1, 10) + "\n");
  const auto count = [&](const EmbedOptions& options) {
    return CountWork(trained, *OpenRecordsFor(trained, dir_ / "some.fasta"), options);
  };
  EXPECT_EQ(count({}).tokens, 9);
  EXPECT_EQ(count({}).left_out, 1);
  EXPECT_EQ(count({.length = 8}).tokens, 8);
  EXPECT_EQ(Of(trained, dir_ / "some.fasta", {.pooling = Pooling::kNone})[0].rows.shape(),
            (Shape{9, 16}));
}

// Pieces come by length: the last one, the shortest, still gives the last row.
TEST_F(EmbeddingTest, TheLastOfManyPieces) {
  const TrainedModel trained = Trained();
  WriteText(dir_ / "some.fasta", ">x\n" + RandomSequence(1, 47) + "\n>y\nMKT\n");
  const auto of = [&](Pooling pooling) {
    return Of(trained, dir_ / "some.fasta",
              {.pooling = pooling, .batch = 2, .layout = Layout::kCrop});
  };
  const auto each = of(Pooling::kNone), last = of(Pooling::kLast);
  ASSERT_EQ(each[0].rows.shape(), (Shape{47, 16}));
  ExpectRow(last[0].rows, 0, each[0].rows, 46);
  ExpectRow(last[1].rows, 0, each[1].rows, 2);
}

}  // namespace
}  // namespace favor
