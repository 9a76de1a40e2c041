// What a model that has learned labels says of records, or of each of their tokens.
//
//   favor::Predict(trained, *favor::OpenRecordsFor(trained, "new.fasta"), {}, context,
//                  [](const favor::Prediction& prediction) { … });
#ifndef FAVOR_PREDICTION_H_
#define FAVOR_PREDICTION_H_

#include <cstdint>
#include <functional>

#include "favor/context.h"
#include "favor/records.h"
#include "favor/tensor.h"
#include "favor/train.h"

namespace favor {

struct PredictOptions {
  int64_t batch = 0;   // sequences at a time; 0: the run's
  int64_t length = 0;  // tokens that are read of a record; 0: the run's
};

struct Prediction {
  Record record;
  // f32 [1, classes], or [tokens, classes] for labels of tokens: probabilities, which sum to 1, or
  // numbers in the units of the labels, [1, 1] or [tokens, 1]. Tokens beyond the length have none.
  Tensor outputs;
};

// Calls `visit` for each record, in their order. Throws kInvalidOption for a model that predicts
// tokens.
void Predict(const TrainedModel& trained, RecordReader& reader, const PredictOptions& options,
             const Context& context, const std::function<void(const Prediction&)>& visit);

}  // namespace favor

#endif  // FAVOR_PREDICTION_H_
