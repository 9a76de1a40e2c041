// What the hidden units of dense feed-forward layers meet in data.
#ifndef FAVOR_TRAIN_CALIBRATION_H_
#define FAVOR_TRAIN_CALIBRATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "favor/data.h"
#include "models/network.h"

namespace favor::train {

struct Calibration {
  std::vector<std::vector<double>> values;  // of w·x + b: for each unit, over tokens
  std::vector<std::vector<double>> inputs;  // x of some of the tokens
};

// One for each layer. Padding does not count.
std::vector<Calibration> Calibrate(const models::Network& network, std::span<const Batch> batches,
                                   const Context& context);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_CALIBRATION_H_
