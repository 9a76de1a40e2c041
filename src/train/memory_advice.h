// What a run that does not fit into memory might change.
#ifndef FAVOR_TRAIN_MEMORY_ADVICE_H_
#define FAVOR_TRAIN_MEMORY_ADVICE_H_

#include <string>

#include "favor/model.h"

namespace favor::train {

// What a step takes, and what it would take with less: "a step of batch 8 × length 4096 takes about
// 12.3 GB: 4.50 GB with recompute, 6.70 GB with batch 4". Empty if nobody can say.
std::string MemoryAdvice(const ModelConfig& model, const MemoryRequest& step);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_MEMORY_ADVICE_H_
