// Weights of another model as a run's first ones.
#ifndef FAVOR_TRAIN_START_H_
#define FAVOR_TRAIN_START_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "favor/train.h"
#include "models/checkpoint.h"
#include "models/network.h"

namespace favor::train {

// What a checkpoint gives to a run that starts from it.
struct StartingPoint {
  std::unique_ptr<models::Checkpoint> checkpoint;
  RunConfig config;                  // of its run; only `model` if it holds nothing else
  std::string vocabulary;            // fingerprint; empty if unknown
  std::string data;                  // its data, as seen from here; empty if there is none
  std::string fingerprint;           // of the data
  std::vector<std::string> classes;  // what its classes stand for
  std::optional<LabelScale> scale;   // of the numbers that it predicts
  int64_t sequences = 0;             // of the data that were read before
};
// Reads a checkpoint or the folder of a run. Throws kIo or kInvalidData.
StartingPoint OpenStart(const std::string& path);

// Copies the values of parameters that both networks have. Throws kInvalidOption, and changes
// nothing, if one has another shape (output layers aside, which are then left as they are, as they
// are without `outputs`) or if there are none. Keeps ω if all that uses it is the same.
StartReport CarryOver(const models::Network& from, models::Network& to, bool outputs,
                      const Context& context);

// Throws kInvalidOption if the tokens of the data do not stand for what the model learned, and
// kInvalidData if its order is to be continued (`first_batch`), but it is not the same data.
void CheckData(const StartingPoint& start, const RunConfig& config, const Dataset& data);
// Whether outputs of the model mean the same for a run: tokens, or the same labels.
bool SameOutputs(const StartingPoint& start, const RunConfig& config, const Dataset& data);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_START_H_
