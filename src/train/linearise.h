// A trained model whose dense feed-forward layers become linearised ones (favor/linearised.h), with
// polynomials fitted to what its hidden units meet in data.
#ifndef FAVOR_TRAIN_LINEARISE_H_
#define FAVOR_TRAIN_LINEARISE_H_

#include <string>
#include <vector>

#include "favor/linearised.h"
#include "favor/train.h"

namespace favor::train {

struct LineariseOptions {
  std::string out;          // the folder of the new run
  LinearisedLayers layers;  // range 0: the largest |w·x + b| that was met
  bool per_unit = true;     // a polynomial for each unit; otherwise one for each layer
  int64_t batches = 4;      // of the train split, for calibration: 4096 tokens at most are read
};

// What became of one layer. Errors are means over its units.
struct LayerReport {
  Interval range;         // of w·x + b, all units
  double mean_width = 0;  // of the ranges of single units
  LinearisedErrors errors;
  int64_t units = 0, usable_units = 0;

  bool IsUsable() const { return errors.bias + errors.variance < errors.linear; }
  std::string Text() const;  // "not usable here: …" if straight lines are as good
};

struct LineariseReport {
  std::vector<LayerReport> layers;
  Score before, after;                // of the valid split
  double flops = 0, dense_flops = 0;  // per token and layer
  ModelConfig config;                 // of the new run
};

// Writes a folder with config.json and best.safetensors. The data, of any kind that the model
// reads, serves calibration and evaluation alone. Throws kInvalidOption if the model's layers are
// linearised already, or if the folder holds a run.
LineariseReport Linearise(const TrainedModel& trained, const Dataset& data,
                          const LineariseOptions& options, const Context& context);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_LINEARISE_H_
