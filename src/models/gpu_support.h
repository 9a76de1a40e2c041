// What runs on a GPU, known before anything is allocated there.
#ifndef FAVOR_MODELS_GPU_SUPPORT_H_
#define FAVOR_MODELS_GPU_SUPPORT_H_

#include "favor/model.h"

namespace favor::models {

// Throws kUnavailable if some layer of the model runs on the CPU only.
void CheckRunsOnGpu(const ModelConfig& config, const Device& gpu);

}  // namespace favor::models

#endif  // FAVOR_MODELS_GPU_SUPPORT_H_
