#include "favor/prediction.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/error_text.h"
#include "inference/label_outputs.h"
#include "inference/sequences.h"

namespace favor {
namespace {

using inference::Piece;
using inference::Sequences;

// The logits of one case become what a user asked for.
void Finish(const TrainedModel& trained, std::span<float> logits) {
  if (trained.model.config().numbers) {
    logits[0] = static_cast<float>(trained.scale.Unscaled(static_cast<double>(logits[0])));
    return;
  }
  const std::vector<double> probabilities = inference::Softmax(logits);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(probabilities[i]);
}

class Group {
 public:
  Group(const TrainedModel& trained, const PredictOptions& options, const Sequences& sequences)
      : trained_(trained),
        sequences_(sequences),
        batch_(options.batch == 0 ? trained.config.training.batch : options.batch) {}

  bool Full() const { return std::ssize(pieces_) >= inference::kBatchesAtOnce * batch_; }

  // As in training, a record's start counts towards the length.
  void Add(Record record) {
    const int64_t reads = sequences_.Reads(std::ssize(record.tokens));
    pieces_.push_back({std::ssize(records_), 0, std::min(reads, sequences_.length())});
    records_.push_back(std::move(record));
  }

  void Finish(const Context& context, const std::function<void(const Prediction&)>& visit) {
    outputs_.clear();
    outputs_.resize(records_.size());
    inference::ForEachBatch(
        pieces_, batch_, [](const Piece& piece) { return piece.count; },
        [&](std::span<const Piece> pieces) { Run(pieces, context); });
    for (size_t i = 0; i < records_.size(); ++i)
      visit({.record = std::move(records_[i]), .outputs = std::move(outputs_[i])});
    records_.clear();
    pieces_.clear();
  }

 private:
  void Run(std::span<const Piece> pieces, const Context& context) {
    Batch batch{.length = pieces.front().count};  // the longest comes first
    for (const Piece& piece : pieces)
      sequences_.AddReads(records_[static_cast<size_t>(piece.record)].tokens, piece, batch);
    Tensor logits = trained_.model.Logits(batch, context);
    const ModelConfig& config = trained_.model.config();
    const int64_t before = sequences_.FirstOwn() - sequences_.PlaceOfRead(0);
    for (size_t row = 0; row < pieces.size(); ++row) {
      const auto number = static_cast<int64_t>(row);
      const int64_t first = config.per_token ? number * batch.length + before : number;
      const int64_t count = config.per_token ? pieces[row].count - before : 1;
      Tensor outputs({count, config.classes});
      std::copy_n(logits.Data<float>() + first * config.classes, count * config.classes,
                  outputs.Data<float>());
      for (int64_t i = 0; i < count; ++i) {
        favor::Finish(trained_, {outputs.Data<float>() + i * config.classes,
                                 static_cast<size_t>(config.classes)});
      }
      outputs_[static_cast<size_t>(pieces[row].record)] = std::move(outputs);
    }
  }

  const TrainedModel& trained_;
  const Sequences& sequences_;
  int64_t batch_;
  std::vector<Record> records_;
  std::vector<Piece> pieces_;
  std::vector<Tensor> outputs_;
};

}  // namespace

void Predict(const TrainedModel& trained, RecordReader& reader, const PredictOptions& options,
             const Context& context, const std::function<void(const Prediction&)>& visit) {
  if (trained.model.config().classes == 0) {
    Throw(ErrorCode::kInvalidOption, Printable(trained.path),
          "predicts tokens, expected a model that has learned labels");
  }
  const Sequences sequences(trained, {.length = options.length, .layout = Layout::kClip});
  inference::ReadInGroups(reader, Group(trained, options, sequences), context, visit);
}

}  // namespace favor
